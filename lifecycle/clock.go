package lifecycle

import "time"

// A clock is the time by which is decided. It runs as the process's own clock does,
// which nobody sets, and never goes back: silence is as long as it lasts. But it is
// the wall's clock by which the API's objects are dated, so where that is set, this
// one follows: forward at once, and back by going half as fast until both agree.
type clock struct {
	wall func() time.Time // without a reading of the process's own clock
	read time.Time        // when it was read last, with one
	now  time.Time        // what it said then
	was  time.Time        // what it said the time before
}

func newClock() *clock {
	now := time.Now()
	return &clock{wall: func() time.Time { return time.Now().Round(0) }, read: now, now: now.Round(0), was: now.Round(0)}
}

// At most so long passes between two rounds, and so little is a leap.
const (
	maxStep = maxSleep + 10*time.Second
	minLeap = time.Second
)

// advance is what time it is, and how much of it nobody has watched: the wall's clock
// was set forward, the machine slept, or the process stood still. Zero: none.
func (k *clock) advance() (now time.Time, missed time.Duration) {
	passed := time.Since(k.read)
	k.was = k.now
	k.read, k.now = k.read.Add(passed), k.now.Add(passed)
	ahead := k.wall().Sub(k.now)
	k.now = k.now.Add(max(ahead, -passed/2))
	if ahead = max(ahead, passed-maxStep); ahead < minLeap {
		return k.now, 0
	}
	return k.now, ahead
}

// of is what time it was at a moment of the process's own clock, as long ago as that
// was. It is not earlier than what the clock said the time before last, nor later
// than what it said last: so what came in one after the other stays in order,
// whatever happened to the wall's clock in between.
func (k *clock) of(moment time.Time) time.Time {
	at := k.now.Add(moment.Sub(k.read))
	switch {
	case at.After(k.now):
		return k.now
	case at.Before(k.was):
		return k.was
	}
	return at
}

// until is how long it is to a moment.
func (k *clock) until(at time.Time) time.Duration { return at.Sub(k.now) - time.Since(k.read) }
