package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// releasePace is the interval of checks for remaining processes, unless memory requires shorter
// ones.
const releasePace = 4 * eviction.MinInterval

// unknownPace is the interval of checks while memory could not be observed, or while an eviction
// is waited for by other means.
const unknownPace = time.Second

// interval returns the time until the next check, by the needs of the hard memory thresholds. No
// other threshold is evaluated between periodic checks.
func (a *Agent) interval(s *signals.Snapshot) time.Duration {
	interval := a.settings.Period
	policy := a.machine.Policy()
	if policy.EarlyEviction != eviction.Never && !a.evictionsPaused(s.At) {
		for i := range policy.Thresholds {
			t := &policy.Thresholds[i]
			if !t.Hard() || !t.Signal.OfMemory() {
				continue
			}
			if o := &s.Node[t.Signal]; o.Known {
				interval = min(interval, eviction.Interval(o.Available, s.Rates[t.Signal], a.settings.MaxFillRate, a.settings.Period))
			} else if t.Signal == signals.MemoryAvailable {
				interval = min(interval, unknownPace)
			}
		}
	}
	for _, e := range a.inflight {
		switch {
		case e == nil:
		case e.State().Soft(), e.State() == inflight.DryRun: // its end is reported, or nothing will be freed
			interval = min(interval, unknownPace)
		case e.State() == inflight.Exiting, e.Unmounting(s.At):
			interval = min(interval, releasePace)
		case e.OfDisk(): // early checks do not cover disks
			interval = min(interval, unknownPace)
		default:
			interval = eviction.MinInterval
		}
	}
	return interval
}
