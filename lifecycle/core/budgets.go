package core

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// budgets are what holds for the whole cluster.
type budgets struct {
	counted, unready int // those that count for zones
	full             bool
	strained         bool      // MostUnhealthy is exceeded, or was until shortly
	eased            time.Time // not exceeded since; zero: it is
	breaker          bool      // it was open when it was looked at last
}

func (b *budgets) count(was, is standing) {
	b.tally(was, -1)
	b.tally(is, +1)
}

func (b *budgets) tally(s standing, by int) {
	if !s.known || !s.counted {
		return
	}
	b.counted += by
	if s.ready != model.True {
		b.unready += by
	}
}

func (b *budgets) next(p *Policy) (at time.Time, ok bool) {
	return b.eased.Add(p.StormCooldown), b.strained && !b.eased.IsZero()
}

// assess finds states and rates of zones, and what holds for the whole cluster,
// and has all looked at that are concerned by what changed.
func (f *Fleet) assess(out []Action) []Action {
	f.adopt()
	changes := f.zones.Update(f.now)
	for _, c := range changes {
		out = append(out, Action{Kind: Zone, Zone: c, at: f.now})
	}
	full := f.zones.AllFull()
	changed := full != f.budgets.full
	f.budgets.full = full
	if f.strain() || changed || f.policy.PauseDisrupted && len(changes) > 0 {
		for _, h := range f.concerned {
			h.evicted = h.evicted && !full
			f.look(h)
		}
	}
	f.infer()
	f.spread()
	return out
}

// strain compares the unready nodes with what is allowed, and reports whether
// that came out differently than before.
func (f *Fleet) strain() (changed bool) {
	b := &f.budgets
	if f.policy.MostUnhealthy.exceeded(b.unready, b.counted) {
		b.eased = time.Time{}
		if b.strained {
			return false
		}
		b.strained = true
		f.tell(nil, BudgetExceeded, "%d of %d nodes are unready: no further one is given up", b.unready, b.counted)
		return true
	}
	if b.strained && b.eased.IsZero() {
		b.eased = f.now
	}
	if !b.strained || f.now.Before(b.eased.Add(f.policy.StormCooldown)) {
		return false
	}
	b.strained, b.eased = false, time.Time{}
	f.tell(nil, BudgetRestored, "%d of %d nodes are unready", b.unready, b.counted)
	return true
}

// watchBreaker tells when the breaker of the evidence opens and closes.
func (f *Fleet) watchBreaker() {
	open, _, why := f.evidence.Breaker()
	if open == f.budgets.breaker {
		return
	}
	f.budgets.breaker = open
	if open {
		f.recovery.spreading = f.policy.RecoveriesPerSecond > 0
		f.tell(nil, BreakerOpened, "%s", why)
		return
	}
	f.tell(nil, BreakerClosed, "")
}

// recovery spreads the return of nodes to service after the breaker was open: all
// pods that come back at once are a storm of their own.
type recovery struct {
	spreading bool
	waiting   *timerqueue.Queue[string] // hosts, by when they recovered
	from      time.Time                 // the next may go
}

// due is when the next host may be freed.
func (r *recovery) due() (at time.Time, ok bool) { return r.from, r.waiting.Len() > 0 }

// spread frees the hosts whose turn it is.
func (f *Fleet) spread() {
	r := &f.recovery
	for r.waiting.Len() > 0 && !r.from.After(f.now) {
		name, _, _ := r.waiting.Next()
		r.waiting.Remove(name)
		h := f.hosts[name]
		h.freed = true
		f.look(h)
		r.from = f.now.Add(time.Duration(float64(time.Second) / f.policy.RecoveriesPerSecond))
	}
	r.spreading = r.spreading && (f.budgets.breaker || r.waiting.Len() > 0)
}
