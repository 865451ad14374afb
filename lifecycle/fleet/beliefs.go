package fleet

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// echo is how long an object that does not show a write of ours is taken for
// older than the write. Watches lag by less.
const echo = 10 * time.Second

// A belief is a write that succeeded and that the object does not show yet.
type belief struct {
	action *Action
	until  time.Time
}

// An undated taint is one that drives pods off since nobody knows when: it counts
// from when it was seen.
type undated struct {
	key   string
	since time.Time
}

// observe takes in the host's object.
func (h *host) observe(n *facts.Node, now time.Time) {
	was := h.object
	h.object = n
	h.date(now)
	back := h.lost && h.answered()
	if n.Conditions[facts.Ready].Status == facts.True && (back || was != nil && was.Conditions[facts.Ready].Status != facts.True) {
		h.unmark() // also if it is not ready any more before anybody acted on that
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
	r := h.object.Conditions[facts.Ready]
	own := r.Reason != facts.ReasonStatusUnknown && r.Reason != facts.ReasonStatusNeverUpdated
	return r.Status != facts.Absent && own && !sameWord(&r, &h.word)
}

func sameWord(a, b *facts.Condition) bool {
	return a.Status == b.Status && a.Heartbeat.Equal(b.Heartbeat) && a.Transition.Equal(b.Transition)
}

// believe takes in that a write of the host succeeded.
func (h *host) believe(a *Action, now time.Time) {
	if h.object != nil && (len(h.beliefs) > 0 || !shows(h.object, a)) {
		h.beliefs = append(h.beliefs, belief{a, now.Add(echo)})
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

// date remembers since when NoExecute taints without a moment are there.
func (h *host) date(now time.Time) {
	var dated []undated
	for i := range h.object.Taints {
		t := &h.object.Taints[i]
		if t.Effect != facts.NoExecute || !t.Added.IsZero() {
			continue
		}
		since := now
		if at := slices.IndexFunc(h.undated, func(u undated) bool { return u.key == t.Key }); at >= 0 {
			since = h.undated[at].since
		}
		dated = append(dated, undated{t.Key, since})
	}
	h.undated = dated
}

// see puts together what is known of the host: the object, what was written
// since, and that nobody hears of it.
func (h *host) see() {
	h.view = h.object
	if h.object == nil || !h.lost && len(h.beliefs) == 0 && len(h.undated) == 0 {
		return
	}
	n := *h.object
	n.Taints = slices.Clone(n.Taints)
	for _, u := range h.undated {
		for i := range n.Taints {
			if n.Taints[i].Is(u.key, facts.NoExecute) {
				n.Taints[i].Added = u.since
			}
		}
	}
	for _, b := range h.beliefs {
		carryOut(b.action, &n)
	}
	if h.lost {
		fallSilent(&n, h.fell)
	}
	h.view = &n
}

// fallSilent makes those conditions Unknown that a node does not report any more.
func fallSilent(n *facts.Node, since time.Time) {
	for t := range facts.Silenced {
		if c := &n.Conditions[t]; c.Status != facts.Unknown {
			*c = silenced(c, since)
		}
	}
}

// silenced is a condition whose node fell silent.
func silenced(c *facts.Condition, since time.Time) facts.Condition {
	s := facts.Condition{Status: facts.Unknown, Heartbeat: c.Heartbeat, Transition: since, Reason: facts.ReasonStatusUnknown}
	if c.Status == facts.Absent {
		s.Reason = facts.ReasonStatusNeverUpdated
	}
	return s
}

// shows reports whether the node is as it is after the action.
func shows(n *facts.Node, a *Action) bool {
	after := *n
	after.Taints = slices.Clone(n.Taints)
	return !carryOut(a, &after)
}

// carryOut does to a node what the action does to its object, and reports whether
// that changed anything. The node's taints must not be shared.
func carryOut(a *Action, n *facts.Node) (changed bool) {
	for i := range a.Conditions {
		c := &n.Conditions[a.Conditions[i].Type]
		if c.Status != facts.Unknown {
			*c, changed = silenced(c, a.at), true
		}
	}
	for i := range a.Remove {
		length := len(n.Taints)
		n.Taints = slices.DeleteFunc(n.Taints, func(t facts.Taint) bool { return t.Is(a.Remove[i].Key, a.Remove[i].Effect) })
		changed = changed || len(n.Taints) != length
	}
	for _, t := range a.Add {
		if !slices.ContainsFunc(n.Taints, func(has facts.Taint) bool { return has.Is(t.Key, t.Effect) }) {
			n.Taints, changed = append(n.Taints, t), true
		}
	}
	return relabel(a, &n.Labels) || changed
}

func relabel(a *Action, l *facts.Labels) (changed bool) {
	for _, c := range a.Labels {
		label := &l.OldOS
		if c.Key == "beta.kubernetes.io/arch" {
			label = &l.OldArch
		}
		if want := (facts.Label{Value: c.Value, Is: true}); *label != want {
			*label, changed = want, true
		}
	}
	return changed
}
