package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// releasePace is how often processes that do not go are looked at, unless memory
// asks for looks more often.
const releasePace = 4 * eviction.MinInterval

// unknownPace is how soon memory that could not be observed is looked at again,
// and a release that is waited for by other means.
const unknownPace = time.Second

// interval is the time until the next look, by what hard memory thresholds
// need: nothing else is decided between regular looks.
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
		case e.State().Soft(), e.State() == inflight.DryRun: // its end is reported, or nothing will come back
			interval = min(interval, unknownPace)
		case e.State() == inflight.Exiting, e.Unmounting(s.At):
			interval = min(interval, releasePace)
		case e.OfDisk(): // disks are not in extra looks
			interval = min(interval, unknownPace)
		default:
			interval = eviction.MinInterval
		}
	}
	return interval
}
