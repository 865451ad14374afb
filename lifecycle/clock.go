package lifecycle

import "time"

// clock is the time for decisions. It runs as the monotonic clock of the process and never goes
// back, so that silence lasts as long as measured. API objects are dated by the wall clock, which
// this clock follows forward. It cannot follow back: see setBack.
type clock struct {
	wall func() time.Time // without a monotonic reading
	read time.Time        // the last reading, with a monotonic reading
	now  time.Time        // the result at that time
	was  time.Time        // the result before that
}

func newClock() *clock {
	now := time.Now()
	return &clock{wall: func() time.Time { return time.Now().Round(0) }, read: now, now: now.Round(0), was: now.Round(0)}
}

// Bounds of the time between two rounds, and of a difference that counts as a leap.
const (
	maxStep = maxSleep + 10*time.Second
	minLeap = time.Second
)

// advance returns the present time, and the unobserved part of the time since the last call. That
// is not zero if the wall clock was set forward, the machine was suspended, or the process stood
// still.
func (k *clock) advance() (now time.Time, missed time.Duration) {
	passed := time.Since(k.read)
	k.was = k.now
	k.read, k.now = k.read.Add(passed), k.now.Add(passed)
	ahead := k.wall().Sub(k.now)
	k.now = k.now.Add(max(ahead, 0))
	if ahead = max(ahead, passed-maxStep); ahead < minLeap {
		return k.now, 0
	}
	return k.now, ahead
}

// setBack returns by how much the wall clock was set back, or zero for less than minLeap. Until a
// new clock is made, every date of an API object would seem older than it is.
func (k *clock) setBack() time.Duration {
	if back := -k.until(k.wall()); back >= minLeap {
		return back
	}
	return 0
}

// of converts a time of the monotonic clock, by its distance to the last reading. The result is
// between the results of the last two readings. Observations therefore stay in order, whatever
// changes the wall clock had in between.
func (k *clock) of(t time.Time) time.Time {
	at := k.now.Add(t.Sub(k.read))
	switch {
	case at.After(k.now):
		return k.now
	case at.Before(k.was):
		return k.was
	}
	return at
}

// until returns the time left until the given time.
func (k *clock) until(at time.Time) time.Duration { return at.Sub(k.now) - time.Since(k.read) }
