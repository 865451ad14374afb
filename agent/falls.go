package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// shortestBase is the least time over which a rate is taken at all, after the
// agent has started or a pod was killed.
const shortestBase = 2 * eviction.ShortestInterval

// fallSamples holds a rate window of looks at the shortest interval, with room
// for looks that notifications add.
const fallSamples = 64

// falls remembers the last looks at the signals of memory, to say how fast
// they fall. It does not allocate.
type falls struct {
	samples [fallSamples]fallSample
	next    int
	count   int
}

type fallSample struct {
	at   time.Time
	node [signal.AllocatableMemoryAvailable + 1]signal.Observation
}

// note remembers a look and sets its rates: since the youngest look that is at
// least eviction.RateWindow old, or the oldest there is.
func (f *falls) note(s *signal.Snapshot) {
	base := f.base(s.At)
	for sig := range signal.Signal(len(f.samples[0].node)) {
		s.Fell[sig] = signal.Fall{}
		if base != nil {
			before, now := &base.node[sig], &s.Node[sig]
			// The time of the observations counts, not that of the looks: a look that
			// was kept waiting would see a fall in less time than it took.
			if over := now.Time.Sub(before.Time); before.Known && now.Known && over >= shortestBase {
				s.Fell[sig] = signal.Fall{By: before.Left() - now.Left(), Over: over}
			}
		}
	}
	latest := &f.samples[f.next]
	latest.at = s.At
	copy(latest.node[:], s.Node[:])
	f.next = (f.next + 1) % fallSamples
	f.count = min(f.count+1, fallSamples)
}

func (f *falls) base(now time.Time) *fallSample {
	var base *fallSample
	for i := 1; i <= f.count; i++ {
		base = &f.samples[(f.next-i+fallSamples)%fallSamples]
		if now.Sub(base.at) >= eviction.RateWindow {
			break
		}
	}
	return base
}
