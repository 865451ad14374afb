package agents

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Policy says how long an agent's word counts.
type Policy struct {
	Grace time.Duration // after its lease was renewed; above zero
}

// A Watch keeps the agents, what they ask for, and what they left. Of its calls'
// now none is earlier than the one before.
type Watch struct {
	policy   Policy
	nodes    map[string]*node
	clearing *timerqueue.Queue[string] // nodes with leftovers: when they are to be cleared, or before

	requests map[string]*request
	asking   *timerqueue.Queue[string]      // UIDs of pods to be evicted at a moment, if their agent is alive then
	parked   map[string]map[string]struct{} // UIDs of those whose agent was not, by node
}

// A node is what is known of the agent on one. Moments are ns since 1970.
type node struct {
	leased bool
	lease  int64 // the renewTime seen last
	last   int64 // sign of life of the agent; 1970: none

	littered bool  // the agent's conditions or taints are there
	since    int64 // and have been seen since then
	clearing bool  // a task is out
	fails    int   // of it in succession
}

// New makes a watch that has seen nothing.
func New(p Policy) *Watch {
	return &Watch{policy: p, nodes: map[string]*node{}, clearing: timerqueue.New[string](),
		requests: map[string]*request{}, asking: timerqueue.New[string](), parked: map[string]map[string]struct{}{}}
}

// Renewed takes in the lease of the agent on a node. A renewTime other than the
// one before is a sign of life, whichever is later. It counts from when it was
// seen, which may be earlier than the now of other calls.
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

// Unleased takes in that the agent's lease was deleted: it is not alive any more.
func (w *Watch) Unleased(name string, _ time.Time) {
	if n := w.nodes[name]; n != nil {
		n.leased = false
		w.drop(name, n)
	}
}

// Alive reports whether the agent on the node was heard of within the grace.
func (w *Watch) Alive(name string, now time.Time) bool {
	at, ok := w.SilentAt(name)
	return ok && now.Before(at)
}

// prefix is that of the keys of an agent's taints.
const prefix = "plimsoll.dev/"

// See takes in a node: for the first time, or because its object changed.
func (w *Watch) See(seen *model.Node, now time.Time) {
	n, littered := w.nodes[seen.Name], hasLeftovers(seen)
	switch {
	case n == nil && !littered:
		return
	case n == nil:
		n = &node{}
		w.nodes[seen.Name] = n
	case n.littered == littered:
		return
	}
	n.littered, n.since, n.fails = littered, now.UnixNano(), 0
	switch {
	case !littered:
		w.clearing.Remove(seen.Name)
		w.drop(seen.Name, n)
	case !n.clearing:
		w.clearing.Set(seen.Name, w.clearAt(n))
	}
}

func hasLeftovers(n *model.Node) bool {
	if len(n.Pressures) > 0 {
		return true
	}
	for i := range n.Taints {
		if strings.HasPrefix(n.Taints[i].Key, prefix) {
			return true
		}
	}
	return false
}

// Forget takes in that a node was deleted. Its pods are gone when [Watch.Gone]
// says so.
func (w *Watch) Forget(name string) {
	delete(w.nodes, name)
	w.clearing.Remove(name)
}

// drop forgets a node of which nothing is known any more.
func (w *Watch) drop(name string, n *node) {
	if !n.leased && !n.littered && !n.clearing {
		delete(w.nodes, name)
	}
}

// clearAt is when the grace is over in which an agent was not heard that has
// something to answer for.
func (w *Watch) clearAt(n *node) time.Time {
	return time.Unix(0, max(n.last, n.since)+int64(w.policy.Grace))
}
