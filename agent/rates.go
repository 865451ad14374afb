package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// minBase is the minimum time span of a rate after a start of the agent or a kill.
const minBase = 2 * eviction.MinInterval

// rateSamples holds a rate window of checks at the shortest interval, with room for checks
// triggered by notifications.
const rateSamples = 64

// rateEstimator stores the last observations of the memory signals, and computes how fast they
// fall. It does not allocate.
type rateEstimator struct {
	samples [rateSamples]rateSample
	next    int
	count   int
}

type rateSample struct {
	at   time.Time
	node [signals.AllocatableMemoryAvailable + 1]signals.Observation
}

// lately is the minimum duration of a fall. If memory has just stopped filling, exhaustion is not
// imminent, though the rate window still contains most of the fill.
const lately = eviction.RelaxedInterval

// note stores an observation and sets the rates of the snapshot. A rate is that over the rate
// window, or that over [lately] if memory has fallen more slowly since.
func (f *rateEstimator) note(s *signals.Snapshot) {
	for sig := range signals.Signal(len(f.samples[0].node)) {
		s.Rates[sig] = slower(f.since(f.base(s, sig, eviction.RateWindow), s, sig), f.since(f.base(s, sig, lately), s, sig))
	}
	latest := &f.samples[f.next]
	latest.at = s.At
	copy(latest.node[:], s.Node[:])
	f.next = (f.next + 1) % rateSamples
	f.count = min(f.count+1, rateSamples)
}

// since returns the change of a signal since an earlier sample. It uses the times of the
// observations, not those of the checks: a delayed check would show a fall within less time than
// it took.
func (f *rateEstimator) since(base *rateSample, s *signals.Snapshot, sig signals.Signal) signals.Rate {
	if base == nil {
		return signals.Rate{}
	}
	before, now := &base.node[sig], &s.Node[sig]
	over := now.Time.Sub(before.Time)
	if !before.Known || !now.Known || over < minBase {
		return signals.Rate{}
	}
	return signals.Rate{By: before.Headroom() - now.Headroom(), Over: over}
}

// slower returns the rate with the slower fall. An unknown rate does not count.
func slower(a, b signals.Rate) signals.Rate {
	if a.Over == 0 || b.Over > 0 && b.PerSecond() < a.PerSecond() {
		return b
	}
	return a
}

// base returns the latest sample of a signal that is at least a window old, or else the oldest
// one of the same epoch.
func (f *rateEstimator) base(s *signals.Snapshot, sig signals.Signal, window time.Duration) (base *rateSample) {
	for i := 1; i <= f.count; i++ {
		older := &f.samples[(f.next-i+rateSamples)%rateSamples]
		if older.node[sig].Epoch != s.Node[sig].Epoch {
			break
		}
		if base = older; s.At.Sub(base.at) >= window {
			break
		}
	}
	return base
}
