package eviction_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// A stream through page cache meets a threshold as fast as a program that fills memory, but the
// kernel reclaims the cache before an OOM kill.
func TestEvaluate_PageCacheDelaysExhaustion(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		available, cache signals.Amount // now
		fell             signals.Amount // of both, within 100 ms
		periodic         bool
		acts             bool
	}{
		{name: "fill without cache", available: 60 * mib, fell: 100 * mib, acts: true},
		{name: "stream: available memory falls, headroom does not", available: 60 * mib, cache: 300 * mib, fell: 0},
		{name: "fill with enough cache", available: 60 * mib, cache: 500 * mib, fell: 100 * mib},
		{name: "fill with too little cache", available: 60 * mib, cache: 400 * mib, fell: 100 * mib, acts: true},
		{name: "cache only", available: 0, cache: 300 * mib, fell: 0},
		{name: "exhausted", available: -mib, cache: mib, fell: 0, acts: true},
		{name: "periodic check, as in the kubelet", available: 60 * mib, cache: 300 * mib, fell: 0, periodic: true, acts: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, err := eviction.NewPolicy(eviction.Settings{
				Thresholds:       []eviction.Threshold{{Signal: signals.MemoryAvailable, Value: eviction.Value{Quantity: signals.Quantity{Value: 100 * mib}}}},
				TransitionPeriod: time.Minute, EarlyEvictionHorizon: 500 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			s := signals.Snapshot{At: time.Unix(1000, 0), Kind: signals.Early}
			if c.periodic {
				s.Kind = signals.Periodic
			}
			s.Node[signals.MemoryAvailable] = signals.Observed(c.available, 1<<30, s.At)
			s.Node[signals.MemoryAvailable].Cache = c.cache
			s.Rates[signals.MemoryAvailable] = signals.Rate{By: c.fell, Over: 100 * time.Millisecond}
			v := eviction.New(policy).Evaluate(&s)
			if acts := v.Target != nil; acts != c.acts {
				t.Errorf("acts %v (%s), want %v", acts, v.Reason, c.acts)
			}
		})
	}
}
