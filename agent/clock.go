package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// timer is the Notifier where nothing notifies, of an agent with that thread.
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

// A clock is the Notifier where nothing notifies: the time alone.
type clock struct{ asked chan struct{} }

func newClock() *clock { return &clock{make(chan struct{}, 1)} }

// Wait implements Notifier.
func (c *clock) Wait(until time.Time) signals.Wakes {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-c.asked:
		return signals.ByRequest
	}
}

// Wake implements Notifier: one token is enough, however often it is called.
func (c *clock) Wake() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// Follow implements Notifier.
func (*clock) Follow(*signals.Observations, []signals.Line) {}

// An alarm is the clock of a thread that waits in a system call, and needs no other
// thread of Go's to wake up.
type alarm struct{ asked event }

// Wait implements Notifier.
func (a *alarm) Wait(until time.Time) signals.Wakes {
	if a.asked.wait(max(time.Until(until), 0)) {
		return signals.ByRequest
	}
	return 0
}

// Wake implements Notifier.
func (a *alarm) Wake() { a.asked.ring() }

// Follow implements Notifier.
func (*alarm) Follow(*signals.Observations, []signals.Line) {}
