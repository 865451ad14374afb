package agent

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Memory that only seems to fall, because counters that were late have come to
// be right: 95 MiB are available all the time.
func TestAFallThatIsNoneEvictsNobody(t *testing.T) {
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		w.add("pod", 1<<30-95*mib)
		begun := time.Now().Add(time.Second)
		w.off = func() signals.Amount {
			// 200 MiB too many for a second, then right within 0.2 s
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

// A fall that is one is confirmed, which costs two looks and no more.
func TestAFallThatIsOneIsConfirmed(t *testing.T) {
	const rate = 300 * mib
	w := live(t, 9*time.Second, false, []eviction.Threshold{hard()}, func(w *world) {
		hog := w.add("hog", 1<<30-300*mib)
		hog.rate, hog.since = rate, time.Now().Add(time.Second)
	})
	if got := w.evicted(); len(got) != 1 {
		t.Fatalf("evicted %v", got)
	}
	// Doomed as soon as it is crossed: 100 MiB last a third of a second.
	crossed := signals.Amount(100 * mib)
	if late := crossed - w.least; late < 0 || late > rate/1000*signals.Amount(4*eviction.MinInterval/time.Millisecond) {
		t.Errorf("decided when %d MiB were left", w.least/mib)
	}
}

// What is doomed is what is confirmed: memory of the pods, while that of the node,
// which comes first, is short but in no danger.
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

// Where it takes long to measure the pods, there is no time to measure them again.
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
