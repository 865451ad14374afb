package checkpoint_test

import (
	"path/filepath"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/checkpoint"
	"plimsoll.dev/plimsoll/test/harness/statefile"
)

// delays are the delays before the readings of a clock, in order. There is none before later ones.
type delays []time.Duration

// slowClock returns a clock with delays before some readings, from a given time since boot on.
func slowClock(begun time.Time, boot time.Duration, d delays) checkpoint.Clock {
	passed := time.Duration(0)
	next := func() time.Duration {
		if len(d) > 0 {
			passed, d = passed+d[0], d[1:]
		}
		return passed
	}
	return checkpoint.Clock{
		Now:       func() time.Time { return begun.Add(next()) },
		SinceBoot: func() (time.Duration, error) { return boot + next(), nil },
	}
}

// A process that stops for 5 s between two readings of the clocks shifts no saved time, whether it saves or loads
// the state.
func TestTimes_UnchangedByDelayBetweenReadings(t *testing.T) {
	for at := range 12 { // more than the readings by one process
		delayed := make(delays, at+1)
		delayed[at] = 5 * time.Second
		if shift := restoredShift(t, delayed, nil); shift != 0 {
			t.Errorf("delay before reading %d of the first process: the time is restored %s later", at+1, shift)
		}
		if shift := restoredShift(t, nil, delayed); shift != 0 {
			t.Errorf("delay before reading %d of the second process: the time is restored %s later", at+1, shift)
		}
	}
}

// restoredShift returns how much later a time is that one process saves and the next one loads.
func restoredShift(t *testing.T, saving, loading delays) time.Duration {
	t.Helper()
	const boot, passed = time.Hour, time.Minute
	path, begun := filepath.Join(t.TempDir(), "state.json"), time.Now()
	first, _ := statefile.Open(t, slowClock(begun, boot, saving), path, "boot")
	saved := begun.Add(20 * time.Second)
	first.Save("at", first.Stamp(saved))
	statefile.Finish(t, first)
	second, _ := statefile.Open(t, slowClock(begun.Add(passed), boot+passed, loading), path, "boot")
	defer second.Close()
	var loaded time.Time
	if err := second.Load("at", &loaded); err != nil {
		t.Fatal(err)
	}
	return second.Moment(loaded).Sub(saved)
}
