package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// confirmTime is the least time between the two observations by which a fall is
// confirmed before a pod is killed for it.
const confirmTime = 2 * eviction.ShortestInterval

// A suspicion is what was observed when memory was found doomed, by counters that
// are up to date: those of all pods were read just before.
type suspicion struct{ node signal.Observations }

// unconfirmed says why doomed memory is looked at once more, empty to act: where
// it lasts longer than a kill and two such looks take, the fall must show between
// two observations that are up to date. Cgroups that have others below them count
// page cache late, and the rate that is known so far may be of that.
func (a *Agent) unconfirmed(s *signal.Snapshot, target *eviction.Threshold) (reason string) {
	policy := a.machine.Policy()
	if target == nil || s.Kind != signal.Extra || policy.ExtraLooks != eviction.Doomed {
		return ""
	}
	sig := target.Signal
	if lasts, falling := s.Fell[sig].Lasts(s.Node[sig].Left()); !falling || lasts < eviction.KillTime+2*confirmTime {
		return ""
	}
	a.cycle.Pods.Measure(context.Background())
	var seen signal.Observations
	a.cycle.Observer.Observe(&seen, signal.Extra)
	before, now := a.suspicion.node[sig], seen[sig]
	over := now.Time.Sub(before.Time)
	if before.Known && over < confirmTime {
		return lookedAtAgain // the older one is waited with
	}
	a.suspicion.node = seen
	fall := signal.Fall{By: before.Left() - now.Left(), Over: over}
	if before.Known && now.Known && over < time.Second && fall.Within(now.Left(), policy.ReactionReserve) {
		return ""
	}
	return lookedAtAgain
}

const lookedAtAgain = "there is time to look again"
