package cluster

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// Intervals of a node's writes, with the defaults of kubelets.
const (
	renewalEvery = 10 * time.Second
	reportEvery  = 5 * time.Minute
)

// beat is one due write of a node: of its status or of its lease.
type beat struct {
	node       *node
	generation int // valid only while equal to the node's generation
	status     bool
}

// calendar stores the beats by the time at which they are due. Most nodes share their times, so
// that a beat needs no ordering among nodes.
type calendar struct {
	moments *timerqueue.Queue[int64] // the keys of due, each at its own time
	due     map[int64][]beat
}

func newCalendar() *calendar {
	return &calendar{moments: timerqueue.New[int64](), due: map[int64][]beat{}}
}

func (c *calendar) add(at time.Time, b beat) {
	key := at.UnixNano()
	if _, is := c.due[key]; !is {
		c.moments.Set(key, at)
	}
	c.due[key] = append(c.due[key], b)
}

// pop returns the beats due now, in the order of their addition.
func (c *calendar) pop(now time.Time) []beat {
	key, ok := c.moments.Pop(now)
	if !ok {
		return nil
	}
	beats := c.due[key]
	delete(c.due, key)
	return beats
}

func (c *calendar) next() (at time.Time, ok bool) {
	_, at, ok = c.moments.Next()
	return at, ok
}
