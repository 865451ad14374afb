package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// legacyDue reports whether a node has been unready for PodEvictionTimeout and has pods
// to evict.
func (f *Fleet) legacyDue(node *nodeState) bool {
	at, ok := f.legacyDeadline(node)
	return ok && !at.After(f.now) && f.hasMovablePods(node)
}

// legacyDeadline returns when a node will have been unready for PodEvictionTimeout:
// since its last sign of life, or since it reported False.
func (f *Fleet) legacyDeadline(node *nodeState) (at time.Time, ok bool) {
	if !f.policy.LegacyEvictions || node.queue == statePodsEvicted {
		return time.Time{}, false
	}
	switch node.ready() {
	case model.Unknown:
		last, ok := f.heartbeats.Last(node.name)
		return last.Add(f.policy.PodEvictionTimeout), ok
	case model.False:
		since := notAfter(f.now, node.view.Conditions[model.Ready].Transition)
		return since.Add(f.policy.PodEvictionTimeout), true
	}
	return time.Time{}, false
}

// hasMovablePods reports whether a node has pods to evict.
func (f *Fleet) hasMovablePods(node *nodeState) bool {
	for _, p := range node.pods {
		if p.movable() {
			return true
		}
	}
	return false
}

// movable reports whether a pod is evicted with its node. One of a DaemonSet would be
// recreated there.
func (p *pod) movable() bool { return !p.object.Daemon && !p.object.Finished && !p.object.Deleting }

// evictAllPods spends a node's token on the eviction of all its pods.
func (f *Fleet) evictAllPods(node *nodeState) {
	queueTable.move(&node.queue, podsEvicted)
	f.addEvent(node, DeletingAllPods, "Deleting all Pods from Node %s.", node.name)
	for _, p := range node.pods {
		f.touchPod(p)
	}
}

// evictWithNode appends the departure of a pod of such a node.
func (f *Fleet) evictWithNode(p *pod, leaving []departure) []departure {
	if p.node.queue != statePodsEvicted || !p.movable() {
		return leaving
	}
	if writes := f.podWrites[p.object.UID]; writes != nil && !writes.evict.mayStart(f.now) {
		return leaving
	}
	return append(leaving, departure{at: f.now, pod: p, why: NodeLost})
}
