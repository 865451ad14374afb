package agent

import (
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// A clock is the Notifier where nothing notifies: the time alone.
type clock struct{ asked chan struct{} }

func newClock() *clock { return &clock{make(chan struct{}, 1)} }

// Wait implements Notifier.
func (c *clock) Wait(until time.Time) signal.Wakes {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-c.asked:
		return signal.ByRequest
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
func (*clock) Follow(*signal.Observations, []signal.Line) {}
