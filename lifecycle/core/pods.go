package core

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A pod is one that is bound to a node. There are millions: it is small.
type pod struct {
	object    *model.Pod
	node      *nodeState // nil: it is gone
	index     int32      // among its host's pods
	marked    bool       // not ready, since its host is not
	scheduled bool       // its eviction is to come
	touched   bool       // in the list of those to be looked at
}

// Pod takes in a pod that is bound to a node, seen for the first time or changed.
// The value is kept, and must not be changed afterwards.
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

// PodGone takes in that a pod's object was deleted.
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
		f.touch(node) // perhaps for a pod that is no longer there
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

// touchPod puts a pod among those that the next Act looks at.
func (f *Fleet) touchPod(p *pod) {
	if f.leading && p != nil && !p.touched {
		p.touched = true
		f.touched.pods = append(f.touched.pods, p)
	}
}

// touchChangedPod looks at a pod that changed, unless its node fares well: then
// nothing follows from it.
func (f *Fleet) touchChangedPod(p *pod) {
	node := p.node
	if p.scheduled || node.markingPods || node.queue == statePodsEvicted || node.taintsHeld || len(node.evictingTaints) > 0 {
		f.touchPod(p)
	}
	if f.policy.LegacyEvictions && !node.unreadySince.IsZero() {
		f.touch(node) // it may have waited for a pod
	}
}

// updateMarking begins to mark the pods of a host whose Ready became Unknown, and ends it.
// A host that reports False has a kubelet that writes the readiness of its pods.
func (f *Fleet) updateMarking(node *nodeState) {
	should := node.ready() == model.Unknown
	if should {
		why, _ := f.sparedBy(node)
		should = why == NotBlocked
	}
	if should && !node.markingPods {
		for _, p := range node.pods {
			f.touchPod(p)
		}
	}
	node.markingPods = should
}

// resetMarks forgets that the host's pods were marked: its kubelet has reported since,
// and writes the readiness of its pods.
func (node *nodeState) resetMarks() {
	node.markingPods = false
	for _, p := range node.pods {
		p.marked = false
	}
}

// updatePods marks pods as not ready, and sets timers of pods, as far as something
// changed about them.
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

// marksPod reports whether a pod of a host that is Unknown is to be marked: any, if the
// controller turned Ready to Unknown; if the host reported that itself, only a pod
// that was created there since.
func (node *nodeState) marksPod(p *pod) bool {
	r := &node.view.Conditions[model.Ready]
	return r.Unheard() || !p.object.Created.Before(r.Transition)
}

// mark says that a pod is not ready, once as long as its host is not: if its
// kubelet has another opinion, it is the kubelet's pod.
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
