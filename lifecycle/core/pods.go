package core

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// pod is a pod bound to a node. It is small, since there are millions.
type pod struct {
	object    *model.Pod
	node      *nodeState // nil: the pod is gone
	index     int32      // among its node's pods
	marked    bool       // as not ready, because its node is Unknown
	scheduled bool       // it has an eviction to come
	touched   bool       // it is in the list of touched ones
}

// Pod handles a new or changed pod bound to a node. The value is stored,
// and must not be changed afterwards.
func (f *Fleet) Pod(p *model.Pod, now time.Time) {
	f.now = now
	f.agents.Pod(p, now)
	f.evictedPods.Pod(p)
	known := f.pods[p.UID]
	switch {
	case known == nil:
		known = &pod{object: p}
		f.pods[p.UID] = known
		f.attach(known, f.ensureNode(p.Node))
	case known.node.name != p.Node:
		was := known.node
		known.node.detach(known)
		f.attach(known, f.ensureNode(p.Node))
		f.dropEmpty(was)
	}
	known.object = p
	f.touchChangedPod(known)
}

// PodGone handles the deletion of a pod's object.
func (f *Fleet) PodGone(uid string, now time.Time) {
	f.now = now
	f.agents.Gone(uid)
	f.evictedPods.Gone(uid)
	p := f.pods[uid]
	if p == nil {
		return
	}
	delete(f.pods, uid)
	delete(f.podWrites, uid)
	f.podRetries.Remove(uid)
	f.timers.Cancel(uid)
	node := p.node
	node.detach(p)
	if node.queue == stateQueued {
		f.touch(node) // perhaps it was queued for this pod
	}
	f.dropEmpty(node)
}

func (f *Fleet) attach(p *pod, node *nodeState) {
	p.node, p.index = node, int32(len(node.pods))
	node.pods = append(node.pods, p)
}

func (node *nodeState) detach(p *pod) {
	last := len(node.pods) - 1
	moved := node.pods[last]
	node.pods[p.index], moved.index = moved, p.index
	node.pods[last] = nil
	node.pods = node.pods[:last]
	p.node = nil
}

// touchPod has the next call of Act evaluate a pod.
func (f *Fleet) touchPod(p *pod) {
	if f.leading && p != nil && !p.touched {
		p.touched = true
		f.touched.pods = append(f.touched.pods, p)
	}
}

// touchChangedPod touches a pod that changed, unless nothing follows for pods of its
// node.
func (f *Fleet) touchChangedPod(p *pod) {
	node := p.node
	if p.scheduled || node.markingPods || node.queue == statePodsEvicted || node.taintsSuspended || len(node.evictingTaints) > 0 {
		f.touchPod(p)
	}
	if f.policy.LegacyEvictions && !node.unreadySince.IsZero() {
		f.touch(node) // it may have had no pod to evict
	}
}

// updateMarking starts to mark the pods of a node when its Ready becomes Unknown, and stops
// it. The kubelet of a node that reports False writes the readiness of its pods.
func (f *Fleet) updateMarking(node *nodeState) {
	should := node.ready() == model.Unknown
	if should {
		why, _ := f.markingBlockedBy(node)
		should = why == NotBlocked
	}
	if should && !node.markingPods {
		for _, p := range node.pods {
			f.touchPod(p)
		}
	}
	node.markingPods = should
}

// resetMarks discards the marks of the node's pods: its kubelet reported since, and
// writes the readiness of its pods.
func (node *nodeState) resetMarks() {
	node.markingPods = false
	for _, p := range node.pods {
		p.marked = false
	}
}

// updatePods marks the touched pods as not ready and sets their timers.
func (f *Fleet) updatePods(out []Action) []Action {
	for _, node := range f.touched.nodes {
		f.updateMarking(node)
	}
	slices.SortFunc(f.touched.pods, byKey)
	for _, p := range f.touched.pods {
		if p.node == nil {
			continue
		}
		out = f.mark(p, out)
		f.departures = f.evictWithNode(p, f.schedule(p, f.departures))
	}
	return out
}

func byKey(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name), cmp.Compare(a.object.UID, b.object.UID))
}

// marksPod reports whether to mark a pod of an Unknown node. If the controller
// wrote Unknown, every pod is marked; if the node reported it, every pod that was created
// since.
func (node *nodeState) marksPod(p *pod) bool {
	r := &node.view.Conditions[model.Ready]
	return r.MissedHeartbeat() || !p.object.Created.Before(r.Transition)
}

// mark appends the write that sets a pod to not ready, once in the time that its node
// is Unknown: a kubelet that writes another value afterwards is right.
func (f *Fleet) mark(p *pod, out []Action) []Action {
	if !p.node.markingPods || p.marked || !p.object.Ready || p.object.Finished || !p.node.marksPod(p) {
		return out
	}
	writes := f.writesOf(p.object.UID)
	if !writes.mark.mayStart(f.now) {
		return out
	}
	p.marked = true
	a := Action{Kind: MarkNotReady, Node: p.node.name, Object: p.node.object, Pod: p.object, id: f.start(&writes.mark), at: f.now}
	a.First = writes.mark.first
	return append(out, a)
}
