package lifecycle

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeSeen: a node is new, or changed.
type nodeSeen struct{ *sighting }

func (e nodeSeen) apply(c *Controller, now time.Time) { c.see(e.sighting, now, now) }

// nodeBeat: a node reported that all is as it was. It came before it is read.
type nodeBeat struct {
	*sighting
	received time.Duration // after the mailbox was made
}

func (e nodeBeat) apply(c *Controller, now time.Time) {
	c.see(e.sighting, c.clock.of(c.inbox.moment(e.received)), now)
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

func (e nodeGone) apply(c *Controller, now time.Time) {
	delete(c.nodes, string(e))
	c.rehearsal.nodeGone(string(e))
	c.fleet.NodeGone(string(e), now)
}

// podSeen: a pod is new, or changed.
type podSeen struct{ *model.Pod }

func (e podSeen) apply(c *Controller, now time.Time) {
	if p := c.asked(e.Pod); c.rehearsal.pod(p) {
		c.fleet.Pod(p, now)
	}
}

// podGone: the pod of this UID is gone.
type podGone string

func (e podGone) apply(c *Controller, now time.Time) {
	c.rehearsal.podGone(string(e))
	c.fleet.PodGone(string(e), now)
}

// listed: one more list was complete.
type listed struct{}

func (listed) apply(c *Controller, _ time.Time) { c.complete++ }

// unreachable: a request failed whose success would mean nothing.
type unreachable struct{}

func (unreachable) apply(c *Controller, now time.Time) { c.fleet.Unreachable(now) }

// elected: this process leads until the term ends.
type elected struct {
	term        *term
	predecessor time.Time // when the former leader was last at work; zero: not known
}

func (e elected) apply(c *Controller, _ time.Time) { c.term, c.predecessor = e.term, e.predecessor }

// leaseRead answers an action of the kind ReadLease.
type leaseRead struct {
	by     *executor
	action *core.Action
	at     time.Time // of its last renewal; zero: there is none
	err    error
}

func (e leaseRead) apply(c *Controller, now time.Time) {
	if e.by == c.executor {
		c.executor.close(e.action)
		c.fleet.LeaseRead(e.action.Node, e.at, e.err, now)
	}
}

// finished: an action was carried out, or failed.
type finished struct {
	by     *executor
	action *core.Action
	err    error
}

func (e finished) apply(c *Controller, now time.Time) {
	if e.by == c.executor {
		c.finish(e.action, e.err, now)
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

func (e asked) apply(c *Controller, now time.Time) {
	if e.by != c.executor || c.fleet.Obsolete(e.action, now) {
		if e.by == c.executor && !e.again {
			c.finish(e.action, core.ErrObsolete, now)
		}
		e.answer <- permission{}
		return
	}
	p := permission{granted: true}
	if s := c.nodes[e.action.Node]; s != nil {
		p.version = s.version
	}
	e.answer <- p
}

// inquiry: somebody wants to know how a node fares.
type inquiry struct {
	node   string
	answer chan<- core.Explanation
}

func (e inquiry) apply(c *Controller, now time.Time) { e.answer <- c.fleet.Explain(e.node, now) }
