package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// lateClock is a Notifier with parked waits that end late.
type lateClock struct {
	*clock
	late   time.Duration
	parked []bool // of each wait
}

func (c *lateClock) Wait(until time.Time, park bool) signals.Wakes {
	c.parked = append(c.parked, park)
	if park {
		until = until.Add(c.late)
	}
	return c.clock.Wait(until, park)
}

// TestThread_IsBoundAfterLateWakes checks when a thread is released for a wait: not within a minute
// after it came back late twice, as on a node with busy processors.
func TestThread_IsBoundAfterLateWakes(t *testing.T) {
	const short, long = restTime - 1, 40 * time.Second
	permitted := func() *Thread { return &Thread{realtime: &unix.SchedAttr{}, ordinary: &unix.SchedAttr{}} }
	for name, c := range map[string]struct {
		thread  *Thread
		late    time.Duration
		exiting bool
		waits   []time.Duration
		parked  []bool
	}{
		"punctual":          {thread: permitted(), late: lateWake - 1, waits: []time.Duration{long, restTime, short}, parked: []bool{true, true, false}},
		"late":              {thread: permitted(), late: lateWake, waits: []time.Duration{restTime, restTime, long, restTime, long, restTime, long}, parked: []bool{true, true, false, false, false, true, true}},
		"late, rarely":      {thread: permitted(), late: lateWake, waits: []time.Duration{2 * long, 2 * long, 2 * long}, parked: []bool{true, true, true}},
		"early":             {thread: permitted(), late: -10 * time.Millisecond, waits: []time.Duration{long, long}, parked: []bool{true, true}},
		"processes exit":    {thread: permitted(), exiting: true, waits: []time.Duration{long, short}, parked: []bool{false, false}},
		"without the class": {thread: &Thread{}, late: time.Second, waits: []time.Duration{long, restTime, short}, parked: []bool{true, true, false}},
		"without a thread":  {late: time.Second, waits: []time.Duration{long, restTime, short}, parked: []bool{true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &lateClock{clock: newClock(), late: c.late}
				c.thread.Hurry()
				defer c.thread.Rest()
				for i, wait := range c.waits {
					c.thread.wait(n, time.Now().Add(wait), c.exiting)
					if c.thread != nil && c.thread.locked != (c.thread.realtime != nil) {
						t.Errorf("locked %t after wait %d", c.thread.locked, i)
					}
				}
				if !slices.Equal(n.parked, c.parked) {
					t.Errorf("parked %v, want %v", n.parked, c.parked)
				}
			})
		})
	}
}
