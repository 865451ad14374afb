package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

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
	if base := f.base(s.At); base != nil {
		for sig := range base.node {
			before, now := &base.node[sig], &s.Node[sig]
			s.Fell[sig] = signal.Fall{}
			if before.Known && now.Known {
				s.Fell[sig] = signal.Fall{By: before.Available - now.Available, Over: s.At.Sub(base.at)}
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
