package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// track is a pod of the recording.
type track struct {
	pod      *signals.Pod
	jsonSize int // of the pod, in bytes
	usage    signals.Usage
	memories []memoryAt // of the last growthWindow
	rate     float64    // bytes per second: the fastest growth up to now within that time, at least 0
	ended    time.Time  // zero: it is active
	evicted  bool       // by the agent, to relieve a signal
}

// size returns the size of the pod and of its usage in bytes.
func (t *track) size() int {
	return t.jsonSize + partBytes*(len(t.usage.Containers)+len(t.usage.Volumes))
}

// track returns the track of a pod, a new one if it has none. Returns [ErrTooManyPods] or [ErrLargePods] beyond a bound.
func (x *comparer) track(p *signals.Pod) (*track, error) {
	t := x.pods[p.UID]
	switch {
	case t == nil && len(x.pods) == recording.MaxTracked:
		return nil, ErrTooManyPods
	case t == nil:
		t = &track{}
		x.pods[p.UID] = t
	case t.pod == p:
		return t, nil
	}
	size, err := x.sizeOf(p)
	if err != nil {
		return nil, err
	}
	before := t.size()
	t.pod, t.jsonSize = p, size
	return t, x.resized(t, before)
}

// sizeOf returns the size of a pod as JSON with all fields, which is near that in memory. The JSON in the recording can
// leave out fields, and is much smaller then. Sizes are stored, since two versions of a pod can alternate in a segment.
func (x *comparer) sizeOf(p *signals.Pod) (int, error) {
	if size, known := x.sizes[p]; known {
		return size, nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("encode pod %s: %w", p.Key(), err)
	}
	x.sizes[p] = len(text)
	return len(text), nil
}

// resized counts the new size of a track. Returns [ErrLargePods] beyond the bound.
func (x *comparer) resized(t *track, before int) error {
	if x.size += t.size() - before; x.size > maxTrackedBytes {
		return ErrLargePods
	}
	return nil
}

// forget removes a pod that has a track.
func (x *comparer) forget(uid string) {
	x.size -= x.pods[uid].size()
	delete(x.pods, uid)
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
