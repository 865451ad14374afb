package core

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// drive finds by which taints a host's pods are evicted, and looks at them all if
// that changed.
func (f *Fleet) drive(h *host) {
	driving, held := f.drivers(h)
	if !h.stale && held == h.held && slices.Equal(driving, h.driving) {
		return
	}
	h.driving, h.held, h.stale = driving, held, false
	for _, p := range h.pods {
		f.lookPod(p)
	}
}

// drivers are the taints by which a host's pods are evicted; held says that there
// are others, by which they are not for the moment.
func (f *Fleet) drivers(h *host) (driving []model.Taint, held bool) {
	if !f.policy.TaintEvictions || h.object == nil {
		return nil, false
	}
	for _, t := range h.view.Taints {
		switch {
		case t.Effect != model.NoExecute:
		case !ours(&t) || !f.policy.NoExecute:
			driving = append(driving, t)
		case h.ready() == model.True || f.budgets.full:
			// It is on its way out, and drives nobody off any more.
		case f.holdsBack(h, &t):
			held = true
		default:
			t.Swapped = h.view.Swapped(&t)
			driving = append(driving, t)
		}
	}
	return driving, held
}

// holdsBack reports whether one of our taints drives nobody off for the moment.
// That a lease is dated within the grace, after a takeover, is not enough: it is
// the node's clock that says so, and the taint is there.
func (f *Fleet) holdsBack(h *host, t *model.Taint) bool {
	if f.budgets.strained || f.paused(h) {
		return true
	}
	why, _ := f.spared(h)
	return why == HeardAgain && h.heard || why == Autonomous && t.Key == model.KeyUnreachable
}

// swaying reports whether the taints that drive pods off the host are being
// written: by which ones they go, if they do, is known after that, and all of its
// pods are looked at then.
func (h *host) swaying() bool {
	is := h.spec.underWay() && h.spec.execution
	h.stale = h.stale || is
	return is
}

// A departure is the end of a pod, or the end of what would have been one.
type departure struct {
	at        time.Time
	pod       *pod
	why       Why
	calledOff bool
}

// schedule sets a pod's timer by what holds now, and returns a departure if that
// calls one off.
func (f *Fleet) schedule(p *pod, leaving []departure) []departure {
	uid, hands := p.facts.UID, f.hands[p.facts.UID]
	if hands != nil && hands.evict.underWay() {
		return leaving // it is decided, and what comes of it is known soon
	}
	if p.host.swaying() {
		return leaving
	}
	at, ok := evictions.Deadline(p.facts, p.host.driving)
	if ok {
		if hands != nil && hands.evict.from.After(at) {
			at = hands.evict.from
		}
		f.timers.Set(uid, at)
		p.timed = hands == nil || !hands.deleted
		return leaving
	}
	f.timers.Cancel(uid)
	if p.timed && hands != nil { // another one begins anew
		hands.evict = write{}
		f.afterwards(uid, hands)
	}
	if p.timed && !p.facts.Deleting && !p.host.held {
		leaving = append(leaving, departure{at: f.now, pod: p, calledOff: true})
	}
	p.timed = p.timed && !p.facts.Deleting && p.host.held
	return leaving
}

// due are the pods whose time has come.
func (f *Fleet) due(leaving []departure) []departure {
	for _, uid := range f.timers.Due(f.now) {
		p := f.pods[uid]
		if p.host.swaying() {
			continue
		}
		if at, ok := evictions.Deadline(p.facts, p.host.driving); ok {
			leaving = append(leaving, departure{at: at, pod: p, why: ByTaint})
		}
	}
	return leaving
}

// evict returns what becomes of pods whose time has come, or never will.
func (f *Fleet) evict(out []Action) []Action {
	f.leaving = f.due(f.leaving)
	slices.SortStableFunc(f.leaving, func(a, b departure) int { return cmp.Or(a.at.Compare(b.at), byKey(a.pod, b.pod)) })
	for _, d := range f.leaving {
		p := d.pod
		a := Action{Kind: Cancel, Node: p.host.name, Object: p.host.object, Pod: p.facts, at: f.now}
		if !d.calledOff {
			hands := f.handsOn(p.facts.UID)
			if hands.evict.underWay() {
				continue // for another reason
			}
			a.Kind, a.Why, a.id = Evict, d.why, f.start(&hands.evict)
			a.Due, a.First = d.at, hands.evict.first
		}
		out = append(out, a)
	}
	clear(f.leaving)
	f.leaving = f.leaving[:0]
	return out
}
