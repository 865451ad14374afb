package oomkill_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/oomkill"
)

// TestClock_Written checks that a record is dated by the most prompt one of the last minutes, whatever the
// epoch of the log's clock is, and that a slow drift of that clock is no delay.
func TestClock_Written(t *testing.T) {
	const boot = 40 * time.Hour
	var c oomkill.Clock
	for _, r := range []struct{ written, late, want time.Duration }{
		{0, 30 * time.Millisecond, 0}, // nothing to compare with
		{time.Second, 0, 0},           // the most prompt one
		{2 * time.Second, 30 * time.Millisecond, 30 * time.Millisecond},
		{3 * time.Second, 700 * time.Millisecond, 700 * time.Millisecond},
		{3*time.Second + time.Millisecond, 700 * time.Millisecond, 700 * time.Millisecond},
		{4 * time.Second, time.Millisecond, time.Millisecond},
		{6 * time.Minute, 5 * time.Millisecond, 5 * time.Millisecond},  // by the previous period
		{12 * time.Minute, 9 * time.Millisecond, 4 * time.Millisecond}, // by the next one
		{40 * time.Minute, 50 * time.Millisecond, 0},                   // all are too old
		{40*time.Minute + time.Second, 20 * time.Millisecond, 0},       // more prompt
		{40*time.Minute + 2*time.Second, 50 * time.Millisecond, 30 * time.Millisecond},
	} {
		now := noon.Add(r.written + r.late)
		if got := now.Sub(c.Written(boot+r.written, now)); got != r.want {
			t.Errorf("written at %s: read %s later, want %s", r.written, got, r.want)
		}
	}
	var drifting oomkill.Clock
	for i := range time.Duration(100_000) {
		now := noon.Add(i * time.Second)
		if late := now.Sub(drifting.Written(boot+i*(time.Second-50*time.Microsecond), now)); late > 31*time.Millisecond {
			t.Fatalf("after %d s: read %s late", i, late)
		}
	}
}
