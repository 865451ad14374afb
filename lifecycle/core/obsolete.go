package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Obsolete reports whether an action that Act returned is no longer wanted, because of
// what was observed since. An executor that queues actions calls it right before it
// carries one out, and finishes an obsolete one with [ErrObsolete].
func (f *Fleet) Obsolete(a *Action, now time.Time) bool {
	f.now = now
	if !f.leading {
		return true
	}
	switch a.Kind {
	case SoftEvict, CleanUpAgent:
		return f.taskObsolete(a)
	case DeleteEvictedPod:
		return f.evictedPodObsolete(a)
	case MarkNotReady, Evict:
		p := f.pods[a.Pod.UID]
		return p == nil || p.object.Deleting || p.object.Finished || f.podActionObsolete(p, a)
	case MarkUnknown, Taint, ReadLease:
		node := f.nodes[a.Node]
		return node == nil || node.object == nil || f.nodeActionObsolete(node, a)
	}
	return false
}

// nodeActionObsolete reports whether a node left the state that the action was decided
// for.
func (f *Fleet) nodeActionObsolete(node *nodeState, a *Action) bool {
	switch {
	case a.Kind == ReadLease:
		return !node.health.silent()
	case a.Kind == MarkUnknown:
		return node.statusWrite.id != a.id || !node.health.silent() || !node.health.lost()
	case node.taintWrite.id != a.id:
		return true
	}
	node.refreshView()
	for i := range a.Add {
		if f.taintUnfounded(node, &a.Add[i]) {
			return true
		}
	}
	for i := range a.Remove {
		if t := &a.Remove[i]; model.KeyOf(node.ready()) == t.Key && !f.taintUnfounded(node, t) {
			return true
		}
	}
	return false
}

// taintUnfounded reports whether there is no reason left to add a taint for a node that
// is not ready or unreachable.
func (f *Fleet) taintUnfounded(node *nodeState, t *model.Taint) bool {
	if t.Key != model.KeyNotReady && t.Key != model.KeyUnreachable {
		return false
	}
	resumed, _ := f.heartbeatResumed(node)
	return model.KeyOf(node.ready()) != t.Key || resumed || t.Effect == model.NoExecute && f.budgets.allDisrupted
}

// podActionObsolete reports whether a pod may stay as it is.
func (f *Fleet) podActionObsolete(p *pod, a *Action) bool {
	node := p.node
	resumed := false
	if node.object != nil {
		node.refreshView()
		resumed, _ = f.heartbeatResumed(node)
	}
	switch {
	case a.Kind == MarkNotReady:
		return !p.object.Ready || node.ready() != model.Unknown || resumed
	case a.Why == NodeLost:
		return node.queue != statePodsEvicted || !node.unready() || resumed
	}
	evicting, _ := f.evictingTaints(node)
	at, ok := evictions.Deadline(p.object, evicting)
	return !ok || at.After(f.now)
}
