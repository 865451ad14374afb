package evictions

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// Timers keep the moments of pods, by UID. The zero value is not usable; see
// [NewTimers]. All is O(log n) or less, except what is said of [Timers.Due].
type Timers struct{ queue *timerqueue.Queue[string] }

// NewTimers makes none.
func NewTimers() *Timers { return &Timers{timerqueue.New[string]()} }

// Set starts a pod's timer, or moves the one that it has, earlier or later.
func (t *Timers) Set(uid string, at time.Time) { t.queue.Set(uid, at) }

// Cancel ends a pod's timer, and reports whether there was one.
func (t *Timers) Cancel(uid string) (was bool) { return t.queue.Remove(uid) }

// Due ends the timers whose moment is now or before and returns their pods, in
// the order of moment and UID. It costs O(log n) for each of them.
func (t *Timers) Due(now time.Time) (uids []string) {
	for uid, ok := t.queue.Pop(now); ok; uid, ok = t.queue.Pop(now) {
		uids = append(uids, uid)
	}
	return uids
}

// At is the moment of a pod, if it has a timer.
func (t *Timers) At(uid string) (at time.Time, ok bool) { return t.queue.At(uid) }

// Next is the earliest moment of all; ok is false without a timer.
func (t *Timers) Next() (at time.Time, ok bool) {
	_, at, ok = t.queue.Next()
	return at, ok
}

// Len is how many timers run.
func (t *Timers) Len() int { return t.queue.Len() }
