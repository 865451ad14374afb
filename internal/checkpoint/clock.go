package checkpoint

import (
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock reads the time of day, which can be set, and the time since boot, which cannot.
type Clock struct {
	Now       func() time.Time
	SinceBoot func() (time.Duration, error)
}

// SystemClock returns the machine's clock (CLOCK_BOOTTIME, which includes suspensions).
func SystemClock() Clock {
	return Clock{Now: time.Now, SinceBoot: func() (time.Duration, error) {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return 0, err
		}
		return time.Duration(t.Nano()), nil
	}}
}

// maxApart is the largest difference of two readings that count as simultaneous. Several of them have
// to fit in tolerance. maxReadings bounds the attempts, each of which takes about a microsecond.
const (
	maxApart    = tolerance / 10
	maxReadings = 100
)

// read reads both times at once. It repeats the reading if the thread was stopped between the two.
// The shortest reading applies if all are long. Returns an error if the time since boot is unknown.
func (c *Clock) read() (now time.Time, boot time.Duration, err error) {
	shortest := time.Duration(math.MaxInt64)
	for range maxReadings {
		before := c.Now()
		since, err := c.SinceBoot()
		if err != nil {
			return time.Time{}, 0, err
		}
		after := c.Now()
		if took := after.Sub(before).Abs(); took < shortest {
			now, boot, shortest = after, since, took
		}
		if shortest <= maxApart {
			break
		}
	}
	return now, boot, nil
}

// reference relates a time of day to the time since boot. The times in a state file belong to the
// clock that showed Wall at SinceBoot, as if it had never been set.
type reference struct {
	Wall      time.Time     `json:"wall,omitzero"`
	SinceBoot time.Duration `json:"sinceBootNanos,omitempty"`
}

// tolerance is the largest difference between two clocks that count as equal. It covers consecutive
// readings and a slewed clock.
const tolerance = 100 * time.Millisecond

// times converts between the times of this process and those of the file.
type times struct {
	clock Clock

	mu    sync.Mutex
	began time.Time     // by the process's own clock; zero: the time since boot is unknown
	boot  time.Duration // the time since boot at began
	jump  time.Duration // change of the time of day by settings since the file was saved
}

func newTimes(c Clock) *times {
	t := &times{clock: c}
	if now, boot, err := c.read(); err == nil {
		t.began, t.boot = now, boot
	}
	return t
}

// reference returns the reference of the times that stamp returns. During a suspension of the
// machine the process's own clock stands still; intervals that began before continue afterwards.
func (t *times) reference() reference {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, boot, err := t.clock.read()
	if err != nil || t.began.IsZero() {
		return reference{}
	}
	if suspended := boot - t.boot - now.Sub(t.began); suspended > tolerance || suspended < -tolerance {
		t.boot += suspended
	}
	return reference{t.began.Round(0), t.boot}
}

// stamp converts a time of this process to a time of the file.
func (t *times) stamp(at time.Time) time.Time {
	if at.IsZero() || t.began.IsZero() {
		return at
	}
	stamp := t.began.Round(0).Add(at.Sub(t.began))
	if set := at.Round(0).Sub(stamp); -tolerance <= set && set <= tolerance {
		return at.Round(0) // readings of two clocks in succession
	}
	return stamp
}

// loaded stores the reference of a file's times, and computes the change of the time of day since.
func (t *times) loaded(r reference) {
	now, boot, err := t.clock.read()
	if err != nil || r.Wall.IsZero() {
		return // without a reference its times are times of day
	}
	jump := now.Round(0).Sub(r.Wall) - (boot - r.SinceBoot)
	if jump > tolerance || jump < -tolerance {
		t.jump = jump
	}
}

// moment converts a time of the file to the present time of day.
func (t *times) moment(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(t.jump)
}
