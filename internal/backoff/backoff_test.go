package backoff_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
)

func TestBounds_Double(t *testing.T) {
	b := backoff.Bounds{Min: time.Second, Max: 5 * time.Second}
	for failures, want := range map[int]time.Duration{0: 5, 1: 1, 2: 2, 3: 4, 4: 5, 5: 5, 100: 5} {
		if got := b.After(failures); got != want*time.Second {
			t.Errorf("after %d failures: got %v, want %v s", failures, got, int(want))
		}
	}
	long := backoff.Bounds{Min: 2 * time.Hour, Max: 30 * 24 * time.Hour}
	for failures := range 100 {
		if got := long.After(failures + 1); got < long.Min || got > long.Max || failures > 0 && got < long.After(failures) {
			t.Errorf("after %d failures: got %v", failures+1, got)
		}
	}
}

func TestBounds_JitterReducesByQuarter(t *testing.T) {
	b := backoff.Bounds{Min: time.Second, Max: time.Minute}
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		got := b.Jittered(3)
		least, most = min(least, got), max(most, got)
	}
	if least < 3*time.Second || most > 4*time.Second || most-least < 500*time.Millisecond {
		t.Errorf("got delays from %v to %v, want 3 s to 4 s", least, most)
	}
}
