package lifecycle

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeSeen: a node is new, or changed.
type nodeSeen struct{ *sighting }

func (l nodeSeen) read(c *Controller, now time.Time) { c.see(l.sighting, now, now) }

// nodeBeat: a node reported that all is as it was. It came before it is read.
type nodeBeat struct {
	*sighting
	came time.Duration // after the mailbox was made
}

func (l nodeBeat) read(c *Controller, now time.Time) {
	c.see(l.sighting, c.clock.of(c.mail.moment(l.came)), now)
}

// see takes in a node that came at a moment before now, or now.
func (c *Controller) see(s *sighting, came, now time.Time) {
	c.nodes[s.node.Name] = s
	if s.other.At.After(c.other.At) {
		c.other = s.other
	}
	c.fleet.NodeSeen(c.rehearsal.node(s.node), came, now)
}

// nodeGone: the node of this name is gone.
type nodeGone string

func (l nodeGone) read(c *Controller, now time.Time) {
	delete(c.nodes, string(l))
	c.rehearsal.nodeGone(string(l))
	c.fleet.NodeGone(string(l), now)
}

// podSeen: a pod is new, or changed.
type podSeen struct{ *model.Pod }

func (l podSeen) read(c *Controller, now time.Time) {
	if p := c.asked(l.Pod); c.rehearsal.pod(p) {
		c.fleet.Pod(p, now)
	}
}

// podGone: the pod of this UID is gone.
type podGone string

func (l podGone) read(c *Controller, now time.Time) {
	c.rehearsal.podGone(string(l))
	c.fleet.PodGone(string(l), now)
}

// listed: one more list was complete.
type listed struct{}

func (listed) read(c *Controller, _ time.Time) { c.complete++ }

// unreachable: a request failed whose success would mean nothing.
type unreachable struct{}

func (unreachable) read(c *Controller, now time.Time) { c.fleet.Unreachable(now) }

// elected: this process leads until the term's context ends.
type elected struct {
	term        context.Context
	predecessor time.Time // when the former leader was last at work; zero: not known
}

func (l elected) read(c *Controller, _ time.Time) { c.term, c.predecessor = l.term, l.predecessor }

// leaseRead answers an action of the kind ReadLease.
type leaseRead struct {
	by     *executor
	action *core.Action
	at     time.Time // of its last renewal; zero: there is none
	err    error
}

func (l leaseRead) read(c *Controller, now time.Time) {
	if l.by == c.hands {
		c.hands.close(l.action)
		c.fleet.LeaseRead(l.action.Node, l.at, l.err, now)
	}
}

// finished: an action was carried out, or failed.
type finished struct {
	by     *executor
	action *core.Action
	err    error
}

func (l finished) read(c *Controller, now time.Time) {
	if l.by == c.hands {
		c.finish(l.action, l.err, now)
	}
}

// asked: an executor is about to carry out an action, and asks whether it still
// is to be. Who asks again has begun, and will tell how it went.
type asked struct {
	by     *executor
	action *core.Action
	again  bool
	answer chan<- permission
}

// A permission is what an executor needs to begin.
type permission struct {
	granted bool
	version string // of the node, as it was seen last
}

func (l asked) read(c *Controller, now time.Time) {
	if l.by != c.hands || c.fleet.Overtaken(l.action, now) {
		if l.by == c.hands && !l.again {
			c.finish(l.action, core.ErrOvertaken, now)
		}
		l.answer <- permission{}
		return
	}
	p := permission{granted: true}
	if s := c.nodes[l.action.Node]; s != nil {
		p.version = s.version
	}
	l.answer <- p
}

// inquiry: somebody wants to know how a node fares.
type inquiry struct {
	node   string
	answer chan<- core.Explanation
}

func (l inquiry) read(c *Controller, now time.Time) { l.answer <- c.fleet.Explain(l.node, now) }
