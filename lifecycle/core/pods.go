package core

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A pod is one that is bound to a node. There are millions: it is small.
type pod struct {
	facts   *model.Pod
	host    *host // nil: it is gone
	place   int32 // among its host's pods
	marked  bool  // not ready, since its host is not
	timed   bool  // its eviction is to come
	looking bool  // in the list of those to be looked at
}

// Pod takes in a pod that is bound to a node, seen for the first time or changed.
// The value is kept, and must not be changed afterwards.
func (f *Fleet) Pod(p *model.Pod, now time.Time) {
	f.now = now
	f.agents.Pod(p, now)
	f.remains.Pod(p)
	known := f.pods[p.UID]
	switch {
	case known == nil:
		known = &pod{facts: p}
		f.pods[p.UID] = known
		f.attach(known, f.host(p.Node))
	case known.host.name != p.Node:
		was := known.host
		known.host.detach(known)
		f.attach(known, f.host(p.Node))
		f.release(was)
	}
	known.facts = p
	f.lookAtPodOf(known)
}

// PodGone takes in that a pod's object was deleted.
func (f *Fleet) PodGone(uid string, now time.Time) {
	f.now = now
	f.agents.Gone(uid)
	f.remains.Gone(uid)
	p := f.pods[uid]
	if p == nil {
		return
	}
	delete(f.pods, uid)
	delete(f.hands, uid)
	f.again.Remove(uid)
	f.timers.Cancel(uid)
	h := p.host
	h.detach(p)
	if h.waiting {
		f.look(h) // perhaps for a pod that is no longer there
	}
	f.release(h)
}

func (f *Fleet) attach(p *pod, h *host) {
	p.host, p.place = h, int32(len(h.pods))
	h.pods = append(h.pods, p)
}

func (h *host) detach(p *pod) {
	last := len(h.pods) - 1
	moved := h.pods[last]
	h.pods[p.place], moved.place = moved, p.place
	h.pods[last] = nil
	h.pods = h.pods[:last]
	p.host = nil
}

// lookPod puts a pod among those that the next Act looks at.
func (f *Fleet) lookPod(p *pod) {
	if f.leading && p != nil && !p.looking {
		p.looking = true
		f.touch.pods = append(f.touch.pods, p)
	}
}

// lookAtPodOf looks at a pod that changed, unless its node fares well: then
// nothing follows from it.
func (f *Fleet) lookAtPodOf(p *pod) {
	h := p.host
	if p.timed || h.marking || h.evicted || h.held || len(h.driving) > 0 {
		f.lookPod(p)
	}
	if f.policy.LegacyEvictions && !h.since.IsZero() {
		f.look(h) // it may have waited for a pod
	}
}

// follow begins to mark the pods of a host whose Ready became Unknown, and ends it.
// A host that reports False has a kubelet that writes the readiness of its pods.
func (f *Fleet) follow(h *host) {
	should := h.ready() == model.Unknown
	if should {
		why, _ := f.spared(h)
		should = why == NotHeld
	}
	if should && !h.marking {
		for _, p := range h.pods {
			f.lookPod(p)
		}
	}
	h.marking = should
}

// unmark forgets that the host's pods were marked: its kubelet has reported since,
// and writes the readiness of its pods.
func (h *host) unmark() {
	h.marking = false
	for _, p := range h.pods {
		p.marked = false
	}
}

// care marks pods as not ready, and sets timers of pods, as far as something
// changed about them.
func (f *Fleet) care(out []Action) []Action {
	for _, h := range f.touch.hosts {
		f.follow(h)
	}
	slices.SortFunc(f.touch.pods, byKey)
	for _, p := range f.touch.pods {
		if p.host == nil {
			continue
		}
		out = f.mark(p, out)
		f.leaving = f.oust(p, f.schedule(p, f.leaving))
	}
	return out
}

func byKey(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.facts.Namespace, b.facts.Namespace), cmp.Compare(a.facts.Name, b.facts.Name), cmp.Compare(a.facts.UID, b.facts.UID))
}

// marks reports whether a pod of a host that is Unknown is to be marked: any, if the
// controller turned Ready to Unknown; if the host reported that itself, only a pod
// that was created there since.
func (h *host) marks(p *pod) bool {
	r := &h.view.Conditions[model.Ready]
	return r.Unheard() || !p.facts.Created.Before(r.Transition)
}

// mark says that a pod is not ready, once as long as its host is not: if its
// kubelet has another opinion, it is the kubelet's pod.
func (f *Fleet) mark(p *pod, out []Action) []Action {
	if !p.host.marking || p.marked || !p.facts.Ready || p.facts.Finished || !p.host.marks(p) {
		return out
	}
	hands := f.handsOn(p.facts.UID)
	if !hands.mark.may(f.now) {
		return out
	}
	p.marked = true
	a := Action{Kind: MarkNotReady, Node: p.host.name, Object: p.host.object, Pod: p.facts, id: f.start(&hands.mark), at: f.now}
	a.First = hands.mark.first
	return append(out, a)
}
