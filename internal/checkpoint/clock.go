package checkpoint

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Clock reads the time of day, which people and protocols set, and the time since
// boot, which nothing sets.
type Clock struct {
	Now       func() time.Time
	SinceBoot func() (time.Duration, error)
}

// SystemClock is the machine's (CLOCK_BOOTTIME, which counts while it is suspended).
func SystemClock() Clock {
	return Clock{Now: time.Now, SinceBoot: func() (time.Duration, error) {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return 0, err
		}
		return time.Duration(t.Nano()), nil
	}}
}

// A reference says when a time of day was, by the time since boot. The times in a
// state file are by the clock that showed that time then, and was never set.
type reference struct {
	Wall      time.Time     `json:"wall,omitzero"`
	SinceBoot time.Duration `json:"sinceBootNanos,omitempty"`
}

// tolerance is how far two clocks may be apart that count as one: what readings one
// after the other differ by, and a clock that is slewed.
const tolerance = 100 * time.Millisecond

// times relates the times of this process to those of the file.
type times struct {
	clock Clock

	mu    sync.Mutex
	began time.Time     // with the process's own clock; zero: the time since boot is not known
	boot  time.Duration // when it began
	jump  time.Duration // how far the time of day was set since the file was saved
}

func newTimes(c Clock) *times {
	t := &times{clock: c}
	if boot, err := c.SinceBoot(); err == nil {
		t.began, t.boot = c.Now(), boot
	}
	return t
}

// reference is that of the times that stamp returns. While the machine was
// suspended the process's own clock stood still, and what began before goes on
// after that.
func (t *times) reference() reference {
	t.mu.Lock()
	defer t.mu.Unlock()
	boot, err := t.clock.SinceBoot()
	if err != nil || t.began.IsZero() {
		return reference{}
	}
	if suspended := boot - t.boot - t.clock.Now().Sub(t.began); suspended > tolerance || suspended < -tolerance {
		t.boot += suspended
	}
	return reference{t.began.Round(0), t.boot}
}

// stamp is a time of this process as the file has it.
func (t *times) stamp(at time.Time) time.Time {
	if at.IsZero() || t.began.IsZero() {
		return at
	}
	stamp := t.began.Round(0).Add(at.Sub(t.began))
	if set := at.Round(0).Sub(stamp); -tolerance <= set && set <= tolerance {
		return at.Round(0) // readings of two clocks, a moment apart
	}
	return stamp
}

// loaded notes what a file's times refer to, and finds how far the time of day was
// set since.
func (t *times) loaded(r reference) {
	boot, err := t.clock.SinceBoot()
	if err != nil || r.Wall.IsZero() {
		return // a file without: its times are times of day
	}
	jump := t.clock.Now().Round(0).Sub(r.Wall) - (boot - r.SinceBoot)
	if jump > tolerance || jump < -tolerance {
		t.jump = jump
	}
}

// moment is when a time of the file was, by the time of day now.
func (t *times) moment(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(t.jump)
}
