package agents

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Policy configures a [Watch].
type Policy struct {
	Grace time.Duration // after the renewal of an agent's lease; above zero
}

// Watch stores the state of the agents, their requests, and their remaining conditions and
// taints. The argument now must not decrease between calls.
type Watch struct {
	policy   Policy
	nodes    map[string]*node
	cleanups *timerqueue.Queue[string] // nodes with leftovers: time of the cleanup, or earlier

	requests  map[string]*request
	evictions *timerqueue.Queue[string]      // UIDs of pods to evict at a time, if their agent is alive then
	parked    map[string]map[string]struct{} // UIDs of pods without a living agent, by node
}

// node is the state of the agent on a node. Times are ns since 1970.
type node struct {
	leased bool
	lease  int64 // last observed renewTime
	last   int64 // last sign of life of the agent; 1970: none

	leftovers bool  // conditions or taints of the agent are present
	since     int64 // start of their presence
	inFlight  bool  // a task is executing
	fails     int   // consecutive failures of the task
}

// New returns a watch without observations.
func New(p Policy) *Watch {
	return &Watch{policy: p, nodes: map[string]*node{}, cleanups: timerqueue.New[string](),
		requests: map[string]*request{}, evictions: timerqueue.New[string](), parked: map[string]map[string]struct{}{}}
}

// SetPolicy replaces the policy; signs of life keep their times. A cleanup after a failed attempt waits
// for its backoff.
func (w *Watch) SetPolicy(p Policy) {
	if p == w.policy {
		return
	}
	w.policy = p
	for name, n := range w.nodes {
		if queued, waits := w.cleanups.At(name); waits && n.fails == 0 && w.clearAt(n).Before(queued) {
			w.cleanups.Set(name, w.clearAt(n)) // a later time is corrected when it is due
		}
	}
}

// Renewed updates the lease of the agent on a node. A renewTime that differs from the last one is
// a sign of life, whichever is later. It counts from its observation, which may be earlier than
// the now of other calls.
func (w *Watch) Renewed(name string, renewTime, seen time.Time) {
	n := w.nodes[name]
	if n == nil {
		n = &node{}
		w.nodes[name] = n
	}
	written := renewTime.UnixNano()
	switch {
	case !n.leased:
		n.last = max(n.last, min(written, seen.UnixNano()))
	case n.lease != written:
		n.last = max(n.last, seen.UnixNano())
	default:
		return
	}
	n.leased, n.lease = true, written
	if len(w.parked) > 0 {
		w.wake(name, seen)
	}
}

// Unleased records the deletion of the agent's lease: the agent is not alive any more.
func (w *Watch) Unleased(name string, _ time.Time) {
	if n := w.nodes[name]; n != nil {
		n.leased = false
		w.drop(name, n)
	}
}

// Alive reports whether the last sign of life of the agent on the node is within the grace
// period.
func (w *Watch) Alive(name string, now time.Time) bool {
	at, ok := w.ExpiresAt(name)
	return ok && now.Before(at)
}

// Prefix is the prefix of the taint keys and condition types of agents.
const Prefix = "plimsoll.dev/"

// Node updates a node, at its first observation or after a change of its object.
func (w *Watch) Node(seen *model.Node, now time.Time) {
	n, leftovers := w.nodes[seen.Name], hasLeftovers(seen)
	switch {
	case n == nil && !leftovers:
		return
	case n == nil:
		n = &node{}
		w.nodes[seen.Name] = n
	case n.leftovers == leftovers:
		return
	}
	n.leftovers, n.since, n.fails = leftovers, now.UnixNano(), 0
	switch {
	case !leftovers:
		w.cleanups.Remove(seen.Name)
		w.drop(seen.Name, n)
	case !n.inFlight:
		w.cleanups.Set(seen.Name, w.clearAt(n))
	}
}

func hasLeftovers(n *model.Node) bool {
	if len(n.Pressures) > 0 {
		return true
	}
	for i := range n.Taints {
		if strings.HasPrefix(n.Taints[i].Key, Prefix) {
			return true
		}
	}
	return false
}

// Forget records the deletion of a node. Its pods remain until [Watch.Gone].
func (w *Watch) Forget(name string) {
	delete(w.nodes, name)
	w.cleanups.Remove(name)
}

// drop removes a node without any state left.
func (w *Watch) drop(name string, n *node) {
	if !n.leased && !n.leftovers && !n.inFlight {
		delete(w.nodes, name)
	}
}

// clearAt returns the end of the grace period for leftovers of an agent without a sign of life.
func (w *Watch) clearAt(n *node) time.Time {
	return time.Unix(0, max(n.last, n.since)+int64(w.policy.Grace))
}
