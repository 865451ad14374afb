package evictions

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// Timers stores the deadlines of pods, by UID. The zero value is not usable; see [NewTimers]. All
// methods cost O(log n) or less, except for [Timers.Due].
type Timers struct{ queue *timerqueue.Queue[string] }

// NewTimers returns an empty set of timers.
func NewTimers() *Timers { return &Timers{timerqueue.New[string]()} }

// Set starts a pod's timer, or moves it earlier or later.
func (t *Timers) Set(uid string, at time.Time) { t.queue.Set(uid, at) }

// Cancel stops a pod's timer, and reports whether there was one.
func (t *Timers) Cancel(uid string) (was bool) { return t.queue.Remove(uid) }

// Due removes the timers due at or before now and returns their pods, in the order of time and
// UID. It costs O(log n) for each of them.
func (t *Timers) Due(now time.Time) (uids []string) {
	for uid, ok := t.queue.Pop(now); ok; uid, ok = t.queue.Pop(now) {
		uids = append(uids, uid)
	}
	return uids
}

// At returns the deadline of a pod, if it has a timer.
func (t *Timers) At(uid string) (at time.Time, ok bool) { return t.queue.At(uid) }

// Next returns the earliest deadline. Without timers ok is false.
func (t *Timers) Next() (at time.Time, ok bool) {
	_, at, ok = t.queue.Next()
	return at, ok
}

// Len returns the number of timers.
func (t *Timers) Len() int { return t.queue.Len() }
