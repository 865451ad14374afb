package agent

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Memory only seems to fall, because late counters are corrected: 95 MiB are available all the
// time.
func TestAFallThatIsNoneEvictsNobody(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
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
	if w.looks[signals.Early] < 100 {
		t.Errorf("%d extra looks: this says nothing", w.looks[signals.Early])
	}
}

// A real fall is confirmed, at the cost of two checks.
func TestAFallThatIsOneIsConfirmed(t *testing.T) {
	const rate = 300 * mib
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = rate, time.Now().Add(time.Second)
	})
	if got := w.evicted(); len(got) != 1 {
		t.Fatalf("evicted %v", got)
	}
	// Exhaustion is imminent as soon as the threshold is met: 100 MiB last a third of a second.
	crossed := signals.Amount(100 * mib)
	if late := crossed - w.least; late < 0 || late > rate/1000*signals.Amount(4*eviction.MinInterval/time.Millisecond) {
		t.Errorf("decided when %d MiB were left", w.least/mib)
	}
}

// The signal with imminent exhaustion is the one to confirm: memory of the pods. That of the node
// comes first, and is short but not falling.
func TestWhatIsDoomedIsConfirmed(t *testing.T) {
	pods := hard()
	pods.Signal = signals.AllocatableMemoryAvailable
	const rate = 300 * mib
	var seen signals.Amount
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard(), pods}, func(w *world) {
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
		t.Errorf("evicted %v, when %d MiB were left", got, seen/mib)
	}
}

// If measuring the pods takes long, there is no time to measure them again.
func TestSlowMeasurementsAreNotRepeated(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.measures = 80 * time.Millisecond
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = 400*mib, time.Now().Add(time.Second)
	})
	if got := w.evicted(); len(got) != 1 || w.least < 20*mib {
		t.Errorf("evicted %v, when %d MiB were left", got, w.least/mib)
	}
}
