package eviction_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Counters may be late: an apparent fall of gigabytes per second may be page cache counted late.
// The rate is measured again before a pod is killed.
func TestStillImminent_ComparesWithLaterObservation(t *testing.T) {
	const mib = 1 << 20
	policy, err := eviction.NewPolicy(eviction.Settings{
		Thresholds:       []eviction.Threshold{{Signal: signals.MemoryAvailable, Value: eviction.Value{Quantity: signals.Quantity{Value: 100 * mib}}}},
		TransitionPeriod: time.Minute, EarlyEvictionHorizon: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		name             string
		periodic         bool
		available, cache signals.Amount // 2 ms after 60 MiB were available, 100 MiB less than 100 ms before
		unknown          bool
		still            bool
	}{
		{name: "still falling", available: 58 * mib, still: true},
		{name: "constant", available: 60 * mib, still: true},
		{name: "all of it cache", available: 60 * mib, cache: 100 * mib},
		{name: "all of it inactive cache", available: 160 * mib},
		{name: "most of it cache", available: 60 * mib, cache: 80 * mib},
		{name: "little of it cache", available: 60 * mib, cache: 5 * mib, still: true},
		{name: "unknown", unknown: true, still: true},
		{name: "periodic check", periodic: true, available: 60 * mib, cache: 100 * mib, still: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := signals.Snapshot{At: at, Kind: signals.Early}
			if c.periodic {
				s.Kind = signals.Periodic
			}
			s.Node[signals.MemoryAvailable] = signals.Observed(60*mib, 1<<30, at)
			s.Rates[signals.MemoryAvailable] = signals.Rate{By: 100 * mib, Over: 100 * time.Millisecond}
			m := eviction.New(policy)
			if v := m.Evaluate(&s); v.Target == nil {
				t.Fatal("exhaustion was not imminent at first")
			}
			var now signals.Observations
			now[signals.MemoryAvailable] = signals.Observed(c.available, 1<<30, at.Add(2*time.Millisecond))
			now[signals.MemoryAvailable].Cache = c.cache
			if c.unknown {
				now[signals.MemoryAvailable] = signals.Unknown("gone")
			}
			if still := m.StillImminent(&s, &now); still != c.still {
				t.Errorf("still imminent: %v, want %v", still, c.still)
			}
		})
	}
}
