package simulate

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// track is a pod of the recording.
type track struct {
	pod      *signals.Pod
	usage    signals.Usage
	memories []memoryAt // of the last growthWindow
	rate     float64    // bytes per second: the fastest growth up to now within that time, at least 0
	ended    time.Time  // zero: it is active
	evicted  bool       // by the agent, to relieve a signal
}

type memoryAt struct {
	at    time.Time
	bytes signals.Bytes
}

// The growth of a pod is measured over these times.
const (
	minGrowthSpan = time.Second
	growthWindow  = 30 * time.Second
)

// measure notes the memory of the pod.
func (t *track) measure(memory signals.Measured[signals.Bytes], at time.Time) {
	if !memory.Known {
		return
	}
	t.usage.Memory, t.rate = memory, 0
	t.memories = slices.DeleteFunc(t.memories, func(m memoryAt) bool { return at.Sub(m.at) > growthWindow })
	for _, m := range t.memories {
		if span := at.Sub(m.at); span >= minGrowthSpan {
			t.rate = max(t.rate, float64(memory.Value-m.bytes)/span.Seconds())
		}
	}
	if n := len(t.memories); n == 0 || at.Sub(t.memories[n-1].at) >= minGrowthSpan/2 { // checks may be 5 ms apart
		t.memories = append(t.memories, memoryAt{at, memory.Value})
	}
}

// grown returns by how much the memory of the pod would have grown since its end.
func (t *track) grown(now time.Time, grows bool) signals.Amount {
	if t.ended.IsZero() || !grows {
		return 0
	}
	return signals.Amount(t.rate * now.Sub(t.ended).Seconds())
}

// relief returns the memory that the end of the pod frees, or would free if it had not ended.
func (t *track) relief(now time.Time, grows bool) signals.Amount {
	of := t.usage.Memory
	if t.usage.MemoryRelief.Known {
		of = t.usage.MemoryRelief
	}
	return signals.Amount(of.Value).Plus(t.grown(now, grows))
}
