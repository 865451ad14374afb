package agent

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// rateAfter returns the rate after a series of memory headrooms in MiB, one per check, every 5
// ms.
func rateAfter(t *testing.T, left ...signals.Amount) float64 {
	t.Helper()
	var f rateEstimator
	var s signals.Snapshot
	at := time.Unix(1000, 0)
	for _, l := range left {
		s.At = at
		s.Node[signals.MemoryAvailable] = signals.Observed(l*mib, 1<<30, at)
		f.note(&s)
		at = at.Add(5 * time.Millisecond)
	}
	return s.Rates[signals.MemoryAvailable].PerSecond() / mib
}

func TestRateEstimator_OngoingFallOnly(t *testing.T) {
	var steady, ended, begun, bursts []signals.Amount
	for i := range signals.Amount(40) {
		steady = append(steady, 400-i*5) // 1000 MiB per second
		ended = append(ended, 400-min(i, 30)*5)
		begun = append(begun, 400-max(i-30, 0)*5)
		bursts = append(bursts, 400-(i/4)*20) // 20 MiB every 20 ms
	}
	for _, c := range []struct {
		name             string
		left             []signals.Amount
		minRate, maxRate float64
	}{
		{"steady fall", steady, 999, 1001},
		{"fall ended 45 ms ago", ended, 0, 0},
		{"fall begun 45 ms ago", begun, 400, 500},
		{"bursts", bursts, 700, 1001},
	} {
		if rate := rateAfter(t, c.left...); rate < c.minRate || rate > c.maxRate {
			t.Errorf("%s: %.0f MiB per second, want %.0f to %.0f", c.name, rate, c.minRate, c.maxRate)
		}
	}
}

func TestRateEstimator_DelayDoesNotIncreaseRate(t *testing.T) {
	var f rateEstimator
	var s signals.Snapshot
	at := time.Unix(1000, 0)
	for i := range signals.Amount(30) {
		s.At = at.Add(time.Duration(i) * 5 * time.Millisecond)
		seen := s.At
		if i == 29 {
			seen = seen.Add(40 * time.Millisecond) // the thread had no processor between the clock and the observation
		}
		left := 400 - signals.Amount(seen.Sub(at)/time.Millisecond) // 1000 MiB per second
		s.Node[signals.MemoryAvailable] = signals.Observed(left*mib, 1<<30, seen)
		f.note(&s)
	}
	if rate := s.Rates[signals.MemoryAvailable].PerSecond() / mib; rate < 999 || rate > 1001 {
		t.Errorf("%.0f MiB per second, want 1000", rate)
	}
}
