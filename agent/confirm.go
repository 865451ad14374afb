package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// confirmTime is the minimum time between two observations that confirm a falling signal before a
// pod is killed.
const confirmTime = 2 * eviction.MinInterval

// confirmation is the last observation with imminent exhaustion. Its counters are up to date,
// since those of all pods were read just before.
type confirmation struct{ node signals.Observations }

// needsConfirmation reports whether imminent exhaustion has to be confirmed before anything
// follows from it, a condition included. If memory lasts longer than a kill and two such checks
// take, two up-to-date observations must both show the fall. Cgroups with children count page
// cache late, which may distort the rate known so far.
func (a *Agent) needsConfirmation(s *signals.Snapshot) bool {
	policy := a.checker.Machine.Policy()
	if s.Kind != signals.Early || policy.EarlyEviction != eviction.Imminent || s.At.Before(a.retryAt) || a.inflight[signals.MemoryPressure] != nil {
		return false
	}
	imminent := a.checker.Machine.Imminent(s)
	if imminent == 0 {
		return false
	}
	lasts := earliestExhaustion(s, imminent)
	if lasts < eviction.ReactionTime+2*confirmTime {
		return false
	}
	if a.confirmation.young(imminent, s) {
		return true // the older observation is the base
	}
	begun := time.Now()
	candidates := a.checker.Pods.Measure(context.Background())
	a.checker.noteCandidates(s, imminent, candidates)
	took := time.Since(begun) // paid once more in another check, and once more to choose a pod
	if lasts-took < eviction.ReactionTime+confirmTime+2*took {
		return false
	}
	var seen signals.Observations
	a.checker.Observer.Observe(&seen, signals.Early)
	for sig := range signals.All {
		if imminent.Has(sig) && a.confirmation.confirmed(sig, &seen[sig], policy.EarlyEvictionHorizon) {
			return false
		}
	}
	return true
}

// earliestExhaustion returns the shortest time to exhaustion of the given signals, and 0 if one
// of them is exhausted.
func earliestExhaustion(s *signals.Snapshot, imminent signals.Set) (lasts time.Duration) {
	lasts = 1<<63 - 1
	for sig := range signals.All {
		if !imminent.Has(sig) {
			continue
		}
		of, falling := s.Rates[sig].TimeToExhaustion(s.Node[sig].Headroom())
		if !falling {
			return 0
		}
		lasts = min(lasts, of)
	}
	return lasts
}

// young reports whether the last observations of the given signals are too recent to derive a
// rate from.
func (u *confirmation) young(imminent signals.Set, s *signals.Snapshot) bool {
	for sig := range signals.All {
		if seen := &u.node[sig]; imminent.Has(sig) && (!seen.Known || s.At.Sub(seen.Time) >= confirmTime) {
			return false
		}
	}
	return true
}

// confirmed reports whether the signal still falls since an earlier observation.
func (u *confirmation) confirmed(sig signals.Signal, now *signals.Observation, reserve time.Duration) bool {
	before := u.node[sig]
	over := now.Time.Sub(before.Time)
	if before.Known && over < confirmTime {
		return false // the older observation is the base
	}
	u.node[sig] = *now
	fall := signals.Rate{By: before.Headroom() - now.Headroom(), Over: over}
	return before.Known && now.Known && over < time.Second && fall.Within(now.Headroom(), reserve)
}
