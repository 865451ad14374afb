package eviction_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Counters can be late: an apparent fall of gigabytes per second may be page cache counted late.
// Before a pod is killed, the rate is measured again.
func TestDoomIsHeldAgainstALaterObservation(t *testing.T) {
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
		regular          bool
		available, cache signals.Amount // 2 ms after 60 MiB were available, 100 MiB less than 100 ms before
		unknown          bool
		still            bool
	}{
		{name: "it falls on", available: 58 * mib, still: true},
		{name: "it stands", available: 60 * mib, still: true},
		{name: "it was cache", available: 60 * mib, cache: 100 * mib},
		{name: "it was inactive cache", available: 160 * mib},
		{name: "most of it was", available: 60 * mib, cache: 80 * mib},
		{name: "little of it was", available: 60 * mib, cache: 5 * mib, still: true},
		{name: "it is not known", unknown: true, still: true},
		{name: "a regular look acts on what is crossed", regular: true, available: 60 * mib, cache: 100 * mib, still: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := signals.Snapshot{At: at, Kind: signals.Early}
			if c.regular {
				s.Kind = signals.Periodic
			}
			s.Node[signals.MemoryAvailable] = signals.Observed(60*mib, 1<<30, at)
			s.Rates[signals.MemoryAvailable] = signals.Rate{By: 100 * mib, Over: 100 * time.Millisecond}
			m := eviction.New(policy)
			if v := m.Evaluate(&s); v.Target == nil {
				t.Fatal("it was no doom to begin with")
			}
			var now signals.Observations
			now[signals.MemoryAvailable] = signals.Observed(c.available, 1<<30, at.Add(2*time.Millisecond))
			now[signals.MemoryAvailable].Cache = c.cache
			if c.unknown {
				now[signals.MemoryAvailable] = signals.Unknown("gone")
			}
			if still := m.StillImminent(&s, &now); still != c.still {
				t.Errorf("still doomed: %v", still)
			}
		})
	}
}
