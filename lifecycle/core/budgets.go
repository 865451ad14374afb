package core

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// budgets are the limits that count the nodes of the whole cluster.
type budgets struct {
	counted, unready int // nodes that count for zones
	allDisrupted     bool
	exceeded         bool      // MaxUnhealthy is exceeded, or was within MaxUnhealthyCooldown
	belowSince       time.Time // since when it is not exceeded; zero: it is
	breaker          bool      // it was open at the latest check
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
	return b.belowSince.Add(p.MaxUnhealthyCooldown), b.exceeded && !b.belowSince.IsZero()
}

// updateZones updates the states and rates of zones and the limits of the cluster, and
// touches the nodes that a change affects.
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

// updateExceeded compares the number of unready nodes with MaxUnhealthy, and reports
// whether the result changed.
func (f *Fleet) updateExceeded() (changed bool) {
	b := &f.budgets
	if f.policy.MaxUnhealthy.exceeded(b.unready, b.counted) {
		b.belowSince = time.Time{}
		if b.exceeded {
			return false
		}
		b.exceeded = true
		f.addEvent(nil, BudgetExceeded, "%d of %d nodes are unready: no node is tainted NoExecute and no eviction begins", b.unready, b.counted)
		return true
	}
	if b.exceeded && b.belowSince.IsZero() {
		b.belowSince = f.now
	}
	if !b.exceeded || f.now.Before(b.belowSince.Add(f.policy.MaxUnhealthyCooldown)) {
		return false
	}
	b.exceeded, b.belowSince = false, time.Time{}
	f.addEvent(nil, BudgetRestored, "%d of %d nodes are unready", b.unready, b.counted)
	return true
}

// reportBreaker adds an event when the breaker of the checker opened or closed.
func (f *Fleet) reportBreaker() {
	open, _, why := f.checker.Breaker()
	if open == f.budgets.breaker {
		return
	}
	f.budgets.breaker = open
	if open {
		f.recovery.limited = f.policy.UntaintRate > 0
		f.addEvent(nil, BreakerOpened, "%s", why)
		return
	}
	f.addEvent(nil, BreakerClosed, "")
}

// recovery limits the rate of untainted nodes after the breaker was open: all pods returning at
// once would cause a mass failure themselves.
type recovery struct {
	limited bool
	waiting *timerqueue.Queue[string] // nodes, by the time of their recovery
	next    time.Time                 // the next node may be untainted
}

// due returns when the next node may be untainted.
func (r *recovery) due() (at time.Time, ok bool) { return r.next, r.waiting.Len() > 0 }

// grantUntaints allows nodes to be untainted, as far as the rate does.
func (f *Fleet) grantUntaints() {
	r := &f.recovery
	for r.waiting.Len() > 0 && !r.next.After(f.now) {
		name, _, _ := r.waiting.Next()
		r.waiting.Remove(name)
		node := f.nodes[name]
		queueTable.move(&node.queue, untaintAllowed)
		f.touch(node)
		if f.policy.UntaintRate > 0 { // it may have become 0, which is all at once
			r.next = f.now.Add(time.Duration(float64(time.Second) / f.policy.UntaintRate))
		}
	}
	r.limited = r.limited && (f.budgets.breaker || r.waiting.Len() > 0)
}
