package lifecycle

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeSeen is a new or changed node.
type nodeSeen struct{ *observation }

func (e nodeSeen) apply(c *Controller, now time.Time) { c.observeNode(e.observation, now, now) }

// nodeHeartbeat is a report of a node with changed heartbeats only. It counts from the time it was
// received.
type nodeHeartbeat struct {
	*observation
	received time.Duration // after the inbox was made
}

func (e nodeHeartbeat) apply(c *Controller, now time.Time) {
	c.observeNode(e.observation, c.clock.of(c.inbox.timeOf(e.received)), now)
}

// observeNode passes on a node that was received before now, or now.
func (c *Controller) observeNode(s *observation, received, now time.Time) {
	c.nodes[s.node.Name] = s
	if s.other.At.After(c.other.At) {
		c.other = s.other
	}
	c.fleet.NodeObserved(s.node, received, now)
}

// nodeGone is the name of a deleted node.
type nodeGone string

func (e nodeGone) apply(c *Controller, now time.Time) {
	delete(c.nodes, string(e))
	c.fleet.NodeGone(string(e), now)
}

// podSeen is a new or changed pod.
type podSeen struct{ *model.Pod }

func (e podSeen) apply(c *Controller, now time.Time) {
	if !c.deletedInDryRun(e.Pod) {
		c.fleet.Pod(e.Pod, now)
	}
}

// podGone is the UID of a deleted pod.
type podGone string

func (e podGone) apply(c *Controller, now time.Time) {
	delete(c.deleted, string(e))
	c.fleet.PodGone(string(e), now)
}

// listed is the completion of one more list.
type listed struct{}

func (listed) apply(c *Controller, _ time.Time) { c.complete++ }

// unreachable is a failed request to the API server. Successes are not reported, since they mean nothing.
type unreachable struct{}

func (unreachable) apply(c *Controller, now time.Time) { c.fleet.Unreachable(now) }

// elected is the start of a term of this process.
type elected struct {
	term        *term
	predecessor time.Time // when the former leader was last running; zero: not known
}

func (e elected) apply(c *Controller, _ time.Time) { c.term, c.predecessor = e.term, e.predecessor }

// leaseRead is the result of an action of the kind ReadLease.
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

// finished is the result of any other action.
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

// wantedQuery is the query of an executor whether an action is still wanted, right before its
// execution. If it is repeated, the task has begun and reports its own result.
type wantedQuery struct {
	by     *executor
	action *core.Action
	again  bool
	answer chan<- permission
}

// permission is the answer to that.
type permission struct {
	granted bool
	version string // of the node, as observed last
}

func (e wantedQuery) apply(c *Controller, now time.Time) {
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

// reconfigured is a changed policy.
type reconfigured struct{ policy core.Policy }

func (e reconfigured) apply(c *Controller, now time.Time) { c.fleet.SetPolicy(e.policy, now) }

// inquiry requests the state of a node.
type inquiry struct {
	node   string
	answer chan<- core.Explanation
}

func (e inquiry) apply(c *Controller, now time.Time) { e.answer <- c.fleet.Explain(e.node, now) }
