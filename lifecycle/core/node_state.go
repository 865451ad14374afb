package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeState is a node with its pods: the latest observations, and the decisions. Pods may be
// observed before the object of their node, and after its deletion.
//
// The booleans are no states of the node. One limits an event to one occurrence. Two store the
// latest result of a computation, so that pods are visited only if it changes. Two mark work for
// the next call of Act.
type nodeState struct {
	name          string
	object        *model.Node // as observed; nil: there is none
	view          *model.Node // the object with pending writes, exact times and the loss; often the object itself
	pods          []*pod      // in no order
	pendingWrites []pendingWrite
	taintTimes    []taintTime // of NoExecute taints
	readyTime     taintTime   // of the transition of Ready, if it is dated ahead
	cleaned       *model.Node // the object that a dry run cleaned up after its agent; nil: none

	health                healthState
	lostAt                time.Time       // when the loss was confirmed
	lastReport            model.Condition // the node's own Ready at that time
	unreadySince          time.Time       // zero: the node is ready
	counts                membership      // in its zone and the cluster
	reportedSecondOpinion bool            // the event SecondOpinion was reported since the node was ready

	queue                   queueState
	statusWrite, taintWrite write // of MarkUnknown and of Taint

	markingPods     bool          // result of updateMarking: pods are marked not ready
	evictingTaints  []model.Taint // results of updateEvictingTaints: the taints that evict pods,
	taintsSuspended bool          // and whether others do not at present
	timersStale     bool          // timers of all pods are set again, whatever changed
	touched         bool          // the node is in the list of touched ones
}

// membership is what a node counts as in its zone and the cluster.
type membership struct {
	ready   model.Status
	counted bool
	known   bool // false: it does not count at all
}

// ensureNode returns the node of the name, and creates it if there is none.
func (f *Fleet) ensureNode(name string) *nodeState {
	node := f.nodes[name]
	if node == nil {
		node = &nodeState{name: name}
		f.nodes[name] = node
	}
	return node
}

// dropEmpty drops a node without an object and pods.
func (f *Fleet) dropEmpty(node *nodeState) {
	if node.object == nil && len(node.pods) == 0 && f.nodes[node.name] == node {
		delete(f.nodes, node.name)
		f.nodeTimers.Remove(node.name)
	}
}

// touch has the next call of Act evaluate a node.
func (f *Fleet) touch(node *nodeState) {
	if f.leading && !node.touched {
		node.touched = true
		f.touched.nodes = append(f.touched.nodes, node)
	}
}

// resetNode discards everything but the pods of a node with a deleted object, or one
// replaced by another of its name.
func (f *Fleet) resetNode(node *nodeState) {
	f.nodeCount--
	if f.leading {
		f.addEvent(node, RemovingNode, "")
		f.dequeue(node)
		f.zones.Remove(node.name)
		f.checker.Clear(node.name)
		f.budgets.count(node.counts, membership{})
		f.recovery.waiting.Remove(node.name)
		f.nodeTimers.Remove(node.name)
		delete(f.silentNodes, node.name)
		delete(f.affected, node.name)
	}
	for _, p := range node.pods {
		p.marked = false
	}
	*node = nodeState{name: node.name, pods: node.pods, evictingTaints: node.evictingTaints, touched: node.touched}
	f.touch(node)
}

// ready returns the effective Ready of the node, of its view.
func (node *nodeState) ready() model.Status {
	if node.view == nil {
		return model.Absent
	}
	return node.view.Conditions[model.Ready].Status
}

// unready reports whether the effective Ready is False or Unknown.
func (node *nodeState) unready() bool {
	r := node.ready()
	return r == model.False || r == model.Unknown
}

// unknownBySilence reports whether Ready is Unknown for missing heartbeats, and not by
// the node's own report.
func (node *nodeState) unknownBySilence() bool {
	if node.ready() != model.Unknown {
		return false
	}
	return node.health.lost() || node.view.Conditions[model.Ready].MissedHeartbeat()
}

// hasNoExecute reports whether the node has one of our NoExecute taints.
func (node *nodeState) hasNoExecute() bool {
	if node.view == nil {
		return false
	}
	for i := range node.view.Taints {
		if ownNoExecute(&node.view.Taints[i]) {
			return true
		}
	}
	return false
}

// ownNoExecute reports whether the taint is one of the two that evict pods of an
// unready node.
func ownNoExecute(t *model.Taint) bool {
	return t.Is(model.KeyNotReady, model.NoExecute) || t.Is(model.KeyUnreachable, model.NoExecute)
}
