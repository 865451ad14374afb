package lifecycle

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A nodeSeen is a node that is new or changed.
type nodeSeen struct{ *sighting }

func (e nodeSeen) apply(c *Controller, now time.Time) { c.see(e.sighting, now, now) }

// A nodeBeat is a report of a node without a change but its heartbeats. It counts from
// the time it was received.
type nodeBeat struct {
	*sighting
	received time.Duration // after the inbox was made
}

func (e nodeBeat) apply(c *Controller, now time.Time) {
	c.see(e.sighting, c.clock.of(c.inbox.moment(e.received)), now)
}

// see passes a node on that was received at a moment before now, or now.
func (c *Controller) see(s *sighting, came, now time.Time) {
	c.nodes[s.node.Name] = s
	if s.other.At.After(c.other.At) {
		c.other = s.other
	}
	c.fleet.NodeSeen(c.rehearsal.node(s.node), came, now)
}

// A nodeGone is the name of a deleted node.
type nodeGone string

func (e nodeGone) apply(c *Controller, now time.Time) {
	delete(c.nodes, string(e))
	c.rehearsal.nodeGone(string(e))
	c.fleet.NodeGone(string(e), now)
}

// A podSeen is a pod that is new or changed.
type podSeen struct{ *model.Pod }

func (e podSeen) apply(c *Controller, now time.Time) {
	if p := c.asked(e.Pod); c.rehearsal.pod(p) {
		c.fleet.Pod(p, now)
	}
}

// A podGone is the UID of a deleted pod.
type podGone string

func (e podGone) apply(c *Controller, now time.Time) {
	c.rehearsal.podGone(string(e))
	c.fleet.PodGone(string(e), now)
}

// A listed is the completion of one more list.
type listed struct{}

func (listed) apply(c *Controller, _ time.Time) { c.complete++ }

// An unreachable is a failed request to the API server, whose success would mean
// nothing.
type unreachable struct{}

func (unreachable) apply(c *Controller, now time.Time) { c.fleet.Unreachable(now) }

// An elected is the start of a term of this process.
type elected struct {
	term        *term
	predecessor time.Time // when the former leader was last running; zero: not known
}

func (e elected) apply(c *Controller, _ time.Time) { c.term, c.predecessor = e.term, e.predecessor }

// A leaseRead is the result of an action of the kind ReadLease.
type leaseRead struct {
	by     *executor
	action *core.Action
	at     time.Time // of the latest renewal; zero: there is no lease
	err    error
}

func (e leaseRead) apply(c *Controller, now time.Time) {
	if e.by == c.executor {
		c.executor.close(e.action)
		c.fleet.LeaseRead(e.action.Node, e.at, e.err, now)
	}
}

// A finished is the result of any other action.
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

// An asked is the question of an executor whether an action is still wanted, right
// before it carries it out. If it is asked again, the task has begun and reports its
// own result.
type asked struct {
	by     *executor
	action *core.Action
	again  bool
	answer chan<- permission
}

// A permission is the answer to that.
type permission struct {
	granted bool
	version string // of the node, as observed last
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

// An inquiry asks for the state of a node.
type inquiry struct {
	node   string
	answer chan<- core.Explanation
}

func (e inquiry) apply(c *Controller, now time.Time) { e.answer <- c.fleet.Explain(e.node, now) }
