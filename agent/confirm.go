package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// confirmTime is the least time between the two observations by which a fall is
// confirmed before a pod is killed for it.
const confirmTime = 2 * eviction.MinInterval

// A confirmation is what was observed when memory was found doomed, by counters that
// are up to date: those of all pods were read just before.
type confirmation struct{ node signals.Observations }

// needsConfirmation reports whether doomed memory is looked at once more before anything
// follows from it, a condition included: where it lasts longer than a kill and
// two such looks take, the fall must show between two observations that are up to
// date. Cgroups that have others below them count page cache late, and the rate
// that is known so far may be of that.
func (a *Agent) needsConfirmation(s *signals.Snapshot) bool {
	policy := a.machine.Policy()
	if s.Kind != signals.Early || policy.EarlyEviction != eviction.Imminent || s.At.Before(a.retryAt) || a.inflight[signals.MemoryPressure] != nil {
		return false
	}
	doomed := a.machine.Imminent(s)
	if doomed == 0 {
		return false
	}
	lasts := earliestExhaustion(s, doomed)
	if lasts < eviction.KillTime+2*confirmTime {
		return false
	}
	if a.confirmation.young(doomed, s) {
		return true // the older one is waited with
	}
	begun := time.Now()
	a.checker.Pods.Measure(context.Background())
	took := time.Since(begun) // once more in another look, and once more to choose a pod
	if lasts-took < eviction.KillTime+confirmTime+2*took {
		return false
	}
	var seen signals.Observations
	a.checker.Observer.Observe(&seen, signals.Early)
	for sig := range signals.All {
		if doomed.Has(sig) && a.confirmation.confirmed(sig, &seen[sig], policy.EarlyEvictionHorizon) {
			return false
		}
	}
	return true
}

// earliestExhaustion is how long what was found doomed lasts: the least of it, and nothing
// where it is used up.
func earliestExhaustion(s *signals.Snapshot, doomed signals.Set) (lasts time.Duration) {
	lasts = 1<<63 - 1
	for sig := range signals.All {
		if !doomed.Has(sig) {
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

// young reports whether what is doomed was suspected too short a time ago to tell
// a fall from it.
func (u *confirmation) young(doomed signals.Set, s *signals.Snapshot) bool {
	for sig := range signals.All {
		if seen := &u.node[sig]; doomed.Has(sig) && (!seen.Known || s.At.Sub(seen.Time) >= confirmTime) {
			return false
		}
	}
	return true
}

// confirmed reports whether the fall shows since an earlier observation.
func (u *confirmation) confirmed(sig signals.Signal, now *signals.Observation, reserve time.Duration) bool {
	before := u.node[sig]
	over := now.Time.Sub(before.Time)
	if before.Known && over < confirmTime {
		return false // the older one is waited with
	}
	u.node[sig] = *now
	fall := signals.Rate{By: before.Headroom() - now.Headroom(), Over: over}
	return before.Known && now.Known && over < time.Second && fall.Within(now.Headroom(), reserve)
}
