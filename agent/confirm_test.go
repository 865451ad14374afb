package agent

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Memory only seems to fall, because late counters are corrected: 95 MiB remain available.
func TestConfirmation_NoEvictionOnLateCounters(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.add("pod", 1<<30-95*mib)
		begun := time.Now().Add(time.Second)
		w.off = func() signals.Amount {
			// 200 MiB too many for a second, then corrected within 0.2 s
			left := 200*time.Millisecond - time.Since(begun)
			return max(0, min(200*mib, signals.Amount(left/time.Millisecond)*mib))
		}
	})
	if got := w.evicted(); len(got) > 0 {
		t.Errorf("evicted %v", got)
	}
	if w.checks[signals.Early] < 100 {
		t.Errorf("%d early checks, want at least 100", w.checks[signals.Early])
	}
}

// A real fall is confirmed, at the cost of two checks.
func TestConfirmation_ConfirmsRealRate(t *testing.T) {
	const rate = 300 * mib
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = rate, time.Now().Add(time.Second)
	})
	if got := w.evicted(); len(got) != 1 {
		t.Fatalf("evicted %v", got)
	}
	// Exhaustion is imminent as soon as the threshold is met: 100 MiB last a third of a second.
	crossed := signals.Amount(100 * mib)
	if late := crossed - w.minAvailable; late < 0 || late > rate/1000*signals.Amount(4*eviction.MinInterval/time.Millisecond) {
		t.Errorf("evicted with a minimum of %d MiB available", w.minAvailable/mib)
	}
}

// The signal with imminent exhaustion is confirmed: memory of the pods. That of the node comes
// first, and is short but not falling.
func TestConfirmation_UsesImminentSignal(t *testing.T) {
	pods := hard()
	pods.Signal = signals.AllocatableMemoryAvailable
	const rate = 300 * mib
	var seen signals.Amount
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard(), pods}, func(w *env) {
		hog := w.add("hog", 1<<30-102*mib)
		hog.rate, hog.since = 4*mib, time.Now()
		begun := time.Now().Add(time.Second)
		w.left = func() signals.Amount {
			if len(w.pods) == 0 {
				return 1 << 30
			}
			seen = 200*mib - max(0, signals.Amount(time.Since(begun)/time.Millisecond)*rate/1000)
			return seen
		}
	})
	if got := w.evicted(); len(got) != 1 || seen < 90*mib {
		t.Errorf("evicted %v with %d MiB available", got, seen/mib)
	}
}

// If the measurement of the pods is slow, there is no time to repeat it.
func TestConfirmation_SkippedAfterSlowMeasurement(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *env) {
		w.measures = 80 * time.Millisecond
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = 400*mib, time.Now().Add(time.Second)
	})
	if got := w.evicted(); len(got) != 1 || w.minAvailable < 20*mib {
		t.Errorf("evicted %v with a minimum of %d MiB available", got, w.minAvailable/mib)
	}
}
