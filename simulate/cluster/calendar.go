package cluster

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
)

// How often a node shows itself, as kubelets do by default.
const (
	renewalEvery = 10 * time.Second
	reportEvery  = 5 * time.Minute
)

// A beat is one due write of a node: of its status or of its lease.
type beat struct {
	node   *node
	turn   int // it counts only while it is the node's
	status bool
}

// A calendar holds the beats by the moment at which they are due. Most nodes
// share theirs, so that a beat costs no order among nodes.
type calendar struct {
	moments *timerqueue.Queue[int64] // of due, each at itself
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

// take returns what is due now, in the order in which it was added.
func (c *calendar) take(now time.Time) []beat {
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
