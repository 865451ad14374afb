package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// echo is how long an object that does not show a write of ours is taken for
// older than the write. Watches lag by less.
const echo = 10 * time.Second

// A belief is a write that succeeded and that the object does not show yet.
type belief struct {
	action *Action
	at     time.Time // when it succeeded
	until  time.Time
}

// observe takes in the host's object.
func (h *host) observe(n *model.Node, now time.Time) {
	was := h.object
	h.object = n
	h.date(now)
	h.dateReady(now)
	back := h.lost && h.answered()
	r := n.Conditions[model.Ready].Status
	reports := r == model.True || r == model.False
	if reports && (back || was != nil && was.Conditions[model.Ready].Status != r) {
		h.unmark() // also if it is Unknown again before anything followed from that
	}
	if back {
		h.lost = false
		h.beliefs = slices.DeleteFunc(h.beliefs, func(b belief) bool { return b.action.Kind == Silence })
	}
	for len(h.beliefs) > 0 && shows(n, h.beliefs[0].action) {
		h.beliefs = h.beliefs[1:]
	}
	h.see()
}

// answered reports whether the host itself wrote Ready since it was lost.
func (h *host) answered() bool {
	r := h.object.Conditions[model.Ready]
	own := r.Reason != model.ReasonStatusUnknown && r.Reason != model.ReasonStatusNeverUpdated
	return r.Status != model.Absent && own && !sameWord(&r, &h.word)
}

func sameWord(a, b *model.Condition) bool {
	return a.Status == b.Status && a.Heartbeat.Equal(b.Heartbeat) && a.Transition.Equal(b.Transition)
}

// believe takes in that a write of the host succeeded.
func (h *host) believe(a *Action, now time.Time) {
	if h.object != nil && (len(h.beliefs) > 0 || !shows(h.object, a)) {
		h.beliefs = append(h.beliefs, belief{a, now, now.Add(echo)})
		h.dateOwn(a, now)
	}
}

// doubt drops what should have been seen by now.
func (h *host) doubt(now time.Time) {
	for len(h.beliefs) > 0 && !h.beliefs[0].until.After(now) {
		h.beliefs = h.beliefs[1:]
	}
	if len(h.beliefs) == 0 {
		h.beliefs = nil
	}
}

// fallSilent makes those conditions Unknown that a node does not report any more.
func fallSilent(n *model.Node, since time.Time) {
	for t := range model.Silenced {
		if c := &n.Conditions[t]; c.Status != model.Unknown {
			*c = silenced(c, since)
		}
	}
}

// silenced is a condition whose node fell silent.
func silenced(c *model.Condition, since time.Time) model.Condition {
	s := model.Condition{Status: model.Unknown, Heartbeat: c.Heartbeat, Transition: since, Reason: model.ReasonStatusUnknown}
	if c.Status == model.Absent {
		s.Reason = model.ReasonStatusNeverUpdated
	}
	return s
}

// shows reports whether the node is as it is after the action.
func shows(n *model.Node, a *Action) bool {
	after := *n
	after.Taints = slices.Clone(n.Taints)
	return !carryOut(a, a.at, &after)
}

// carryOut does to a node what the action does to its object at that moment, and
// reports whether that changed anything. The node's taints must not be shared.
func carryOut(a *Action, at time.Time, n *model.Node) (changed bool) {
	for i := range a.Conditions {
		c := &n.Conditions[a.Conditions[i].Type]
		if c.Status != model.Unknown {
			*c, changed = silenced(c, at), true
		}
	}
	for i := range a.Remove {
		length := len(n.Taints)
		n.Taints = slices.DeleteFunc(n.Taints, func(t model.Taint) bool { return t.Is(a.Remove[i].Key, a.Remove[i].Effect) })
		changed = changed || len(n.Taints) != length
	}
	for _, t := range a.Add {
		if !slices.ContainsFunc(n.Taints, func(has model.Taint) bool { return has.Is(t.Key, t.Effect) }) {
			n.Taints, changed = append(n.Taints, t), true
		}
	}
	return relabel(a, &n.Labels) || changed
}

func relabel(a *Action, l *model.Labels) (changed bool) {
	for _, c := range a.Labels {
		label := &l.OldOS
		if c.Key == "beta.kubernetes.io/arch" {
			label = &l.OldArch
		}
		if want := (model.Label{Value: c.Value, Is: true}); *label != want {
			*label, changed = want, true
		}
	}
	return changed
}
