package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// timer returns a Notifier without notifications, for an agent with the given thread.
func timer(thread *Thread) Notifier {
	if thread == nil {
		return newClock()
	}
	asked, err := newEvent()
	if err != nil {
		return newClock()
	}
	return &alarm{asked: asked}
}

// clock is a Notifier that wakes at the given time only.
type clock struct{ asked chan struct{} }

func newClock() *clock { return &clock{make(chan struct{}, 1)} }

// Wait implements Notifier.
func (c *clock) Wait(until time.Time, _ bool) signals.Wakes {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-c.asked:
		return signals.ByRequest
	}
}

// Wake implements Notifier. One token is enough for any number of calls.
func (c *clock) Wake() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// Follow implements Notifier.
func (*clock) Follow(*signals.Observations, []signals.Line) {}

// alarm is the clock of a thread that waits in a system call. Its wakeup needs no other thread of
// the Go runtime.
type alarm struct{ asked event }

// Wait implements Notifier.
func (a *alarm) Wait(until time.Time, _ bool) signals.Wakes {
	if a.asked.wait(max(time.Until(until), 0)) {
		return signals.ByRequest
	}
	return 0
}

// Wake implements Notifier.
func (a *alarm) Wake() { a.asked.ring() }

// Follow implements Notifier.
func (*alarm) Follow(*signals.Observations, []signals.Line) {}
