package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// legacyDue reports whether a host that is not ready has been so for long enough to
// lose its pods, and has any to lose.
func (f *Fleet) legacyDue(node *nodeState) bool {
	at, ok := f.legacyDeadline(node)
	return ok && !at.After(f.now) && f.hasMovablePods(node)
}

// legacyDeadline is when a host has been dead for PodEvictionTimeout: since its last sign
// of life, or since it said itself that it is not ready.
func (f *Fleet) legacyDeadline(node *nodeState) (at time.Time, ok bool) {
	if !f.policy.LegacyEvictions || node.queue == statePodsEvicted {
		return time.Time{}, false
	}
	switch node.ready() {
	case model.Unknown:
		last, heard := f.heartbeats.Last(node.name)
		return last.Add(f.policy.PodEvictionTimeout), heard
	case model.False:
		since := notAfter(f.now, node.view.Conditions[model.Ready].Transition)
		return since.Add(f.policy.PodEvictionTimeout), true
	}
	return time.Time{}, false
}

// hasMovablePods reports whether a host has pods that eviction is for.
func (f *Fleet) hasMovablePods(node *nodeState) bool {
	for _, p := range node.pods {
		if p.movable() {
			return true
		}
	}
	return false
}

// movable reports whether a pod is evicted with its node: those of DaemonSets
// would come back to it.
func (p *pod) movable() bool { return !p.object.Daemon && !p.object.Finished && !p.object.Deleting }

// evictAllPods evicts all pods of a host whose turn it is.
func (f *Fleet) evictAllPods(node *nodeState) {
	queueTable.move(&node.queue, podsEvicted)
	f.addEvent(node, DeletingAllPods, "Deleting all Pods from Node %s.", node.name)
	for _, p := range node.pods {
		f.touchPod(p)
	}
}

// evictWithNode evicts a pod of a host whose turn has come, now or long ago.
func (f *Fleet) evictWithNode(p *pod, leaving []departure) []departure {
	if p.node.queue != statePodsEvicted || !p.movable() {
		return leaving
	}
	if writes := f.podWrites[p.object.UID]; writes != nil && !writes.evict.mayStart(f.now) {
		return leaving
	}
	return append(leaving, departure{at: f.now, pod: p, why: NodeLost})
}
