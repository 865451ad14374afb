package core

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// budgets are what holds for the whole cluster.
type budgets struct {
	counted, unready int // those that count for zones
	allDisrupted     bool
	exceeded         bool      // MostUnhealthy is exceeded, or was until shortly
	belowSince       time.Time // not exceeded since; zero: it is
	breaker          bool      // it was open when it was looked at last
}

func (b *budgets) count(was, is membership) {
	b.tally(was, -1)
	b.tally(is, +1)
}

func (b *budgets) tally(s membership, by int) {
	if !s.known || !s.counted {
		return
	}
	b.counted += by
	if s.ready != model.True {
		b.unready += by
	}
}

func (b *budgets) next(p *Policy) (at time.Time, ok bool) {
	return b.belowSince.Add(p.StormCooldown), b.exceeded && !b.belowSince.IsZero()
}

// updateZones finds states and rates of zones, and what holds for the whole cluster,
// and has all looked at that are concerned by what changed.
func (f *Fleet) updateZones(out []Action) []Action {
	f.adopt()
	changes := f.zones.Update(f.now)
	for _, c := range changes {
		out = append(out, Action{Kind: Zone, Zone: c, at: f.now})
	}
	full := f.zones.AllFull()
	changed := full != f.budgets.allDisrupted
	f.budgets.allDisrupted = full
	if f.updateExceeded() || changed || f.policy.PauseDisrupted && len(changes) > 0 {
		for _, node := range f.affected {
			if full {
				queueTable.move(&node.queue, zonesDisrupted)
			}
			f.touch(node)
		}
	}
	f.emptyBuckets()
	f.grantUntaints()
	return out
}

// updateExceeded compares the unready nodes with what is allowed, and reports whether
// that came out differently than before.
func (f *Fleet) updateExceeded() (changed bool) {
	b := &f.budgets
	if f.policy.MostUnhealthy.exceeded(b.unready, b.counted) {
		b.belowSince = time.Time{}
		if b.exceeded {
			return false
		}
		b.exceeded = true
		f.addEvent(nil, BudgetExceeded, "%d of %d nodes are unready: no further one is given up", b.unready, b.counted)
		return true
	}
	if b.exceeded && b.belowSince.IsZero() {
		b.belowSince = f.now
	}
	if !b.exceeded || f.now.Before(b.belowSince.Add(f.policy.StormCooldown)) {
		return false
	}
	b.exceeded, b.belowSince = false, time.Time{}
	f.addEvent(nil, BudgetRestored, "%d of %d nodes are unready", b.unready, b.counted)
	return true
}

// reportBreaker tells when the breaker of the evidence opens and closes.
func (f *Fleet) reportBreaker() {
	open, _, why := f.checker.Breaker()
	if open == f.budgets.breaker {
		return
	}
	f.budgets.breaker = open
	if open {
		f.recovery.limited = f.policy.RecoveriesPerSecond > 0
		f.addEvent(nil, BreakerOpened, "%s", why)
		return
	}
	f.addEvent(nil, BreakerClosed, "")
}

// recovery spreads the return of nodes to service after the breaker was open: all
// pods that come back at once are a storm of their own.
type recovery struct {
	limited bool
	waiting *timerqueue.Queue[string] // hosts, by when they recovered
	next    time.Time                 // the next may go
}

// due is when the next host may be freed.
func (r *recovery) due() (at time.Time, ok bool) { return r.next, r.waiting.Len() > 0 }

// grantUntaints frees the hosts whose turn it is.
func (f *Fleet) grantUntaints() {
	r := &f.recovery
	for r.waiting.Len() > 0 && !r.next.After(f.now) {
		name, _, _ := r.waiting.Next()
		r.waiting.Remove(name)
		node := f.nodes[name]
		queueTable.move(&node.queue, untaintAllowed)
		f.touch(node)
		r.next = f.now.Add(time.Duration(float64(time.Second) / f.policy.RecoveriesPerSecond))
	}
	r.limited = r.limited && (f.budgets.breaker || r.waiting.Len() > 0)
}
