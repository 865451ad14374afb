package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Overtaken reports whether an action that Act returned is no longer wanted,
// because of what was observed since. Who lets actions wait asks this right
// before carrying one out, and finishes those that are overtaken with
// [ErrOvertaken].
func (f *Fleet) Overtaken(a *Action, now time.Time) bool {
	f.now = now
	if !f.leading {
		return true
	}
	switch a.Kind {
	case SoftEvict, ClearAgent:
		return f.unasked(a)
	case ClearPod:
		return f.kept(a)
	case MarkNotReady, Evict:
		p := f.pods[a.Pod.UID]
		return p == nil || p.facts.Deleting || p.facts.Finished || f.spares(p, a)
	case Silence, Taint, ReadLease:
		h := f.hosts[a.Node]
		return h == nil || h.object == nil || f.outlived(h, a)
	}
	return false
}

// outlived reports whether a host is no longer in the state for which the action
// was decided.
func (f *Fleet) outlived(h *host, a *Action) bool {
	switch {
	case a.Kind == ReadLease:
		return !h.silent
	case a.Kind == Silence:
		return h.status.id != a.id || !h.silent || !h.lost
	case h.spec.id != a.id:
		return true
	}
	h.see()
	for i := range a.Add {
		if f.unfounded(h, &a.Add[i]) {
			return true
		}
	}
	for i := range a.Remove {
		if t := &a.Remove[i]; model.KeyOf(h.ready()) == t.Key && !f.unfounded(h, t) {
			return true
		}
	}
	return false
}

// unfounded reports whether there is no reason any more to add a taint that says
// that the host is not ready, or not heard of.
func (f *Fleet) unfounded(h *host, t *model.Taint) bool {
	if t.Key != model.KeyNotReady && t.Key != model.KeyUnreachable {
		return false
	}
	heard, _ := f.revived(h)
	return model.KeyOf(h.ready()) != t.Key || heard || t.Effect == model.NoExecute && f.budgets.full
}

// spares reports whether a pod may stay as it is after all.
func (f *Fleet) spares(p *pod, a *Action) bool {
	h := p.host
	heard := false
	if h.object != nil {
		h.see()
		heard, _ = f.revived(h)
	}
	switch {
	case a.Kind == MarkNotReady:
		return !p.facts.Ready || h.ready() != model.Unknown || heard
	case a.Why == NodeLost:
		return !h.evicted || !h.unready() || heard
	}
	driving, _ := f.drivers(h)
	at, ok := evictions.Deadline(p.facts, driving)
	return !ok || at.After(f.now)
}
