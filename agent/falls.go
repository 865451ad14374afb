package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// minBase is the least time over which a rate is taken at all, after the
// agent has started or a pod was killed.
const minBase = 2 * eviction.MinInterval

// rateSamples holds a rate window of looks at the shortest interval, with room
// for looks that notifications add.
const rateSamples = 64

// rateEstimator remembers the last looks at the signals of memory, to say how fast
// they fall. It does not allocate.
type rateEstimator struct {
	samples [rateSamples]rateSample
	next    int
	count   int
}

type rateSample struct {
	at   time.Time
	node [signals.AllocatableMemoryAvailable + 1]signals.Observation
}

// lately is the time over which a fall has to go on. A fill that has just ended
// is no doom, though the rate window still holds most of it.
const lately = eviction.RelaxedInterval

// note remembers a look and sets its rates: over the rate window or, if memory
// has fallen more slowly since, lately.
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

// since is how what is left of a signal moved since an earlier look. The time of
// the observations counts, not that of the looks: a look that was kept waiting
// would see a fall in less time than it took.
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

// slower is the fall of two that goes less fast; one that nothing is known about
// does not count.
func slower(a, b signals.Rate) signals.Rate {
	if a.Over == 0 || b.Over > 0 && b.PerSecond() < a.PerSecond() {
		return b
	}
	return a
}

// base is the youngest look at a signal that is at least a window old, or the
// oldest there is of the same basis.
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
