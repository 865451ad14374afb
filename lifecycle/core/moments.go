package core

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A moment is since when a NoExecute taint counts, where its timeAdded is not exact:
// the API holds whole seconds, or nothing at all.
type moment struct {
	key   string
	stamp time.Time // timeAdded; zero: the object has none
	since time.Time
	own   bool // of a write that succeeded and that the object does not show yet
}

// date brings the moments of the host's NoExecute taints up to date with its
// object.
func (h *host) date(now time.Time) {
	var dated []moment
	for i := range h.object.Taints {
		t := &h.object.Taints[i]
		if t.Effect != model.NoExecute {
			continue
		}
		if since := h.sinceWhen(t, now); !since.IsZero() {
			dated = append(dated, moment{key: t.Key, stamp: t.Added, since: since})
		}
	}
	for _, m := range h.moments {
		shown := func(d moment) bool { return d.key == m.key }
		if m.own && len(h.beliefs) > 0 && !slices.ContainsFunc(dated, shown) {
			dated = append(dated, m)
		}
	}
	h.moments = dated
}

// sinceWhen is since when a taint of the object counts; zero: since its timeAdded.
func (h *host) sinceWhen(t *model.Taint, now time.Time) time.Time {
	if since := h.recorded(t); !since.IsZero() {
		return since
	}
	if t.Added.IsZero() || t.Added.After(now) || h.spec.underWay() && h.spec.fresh == t.Key {
		return now
	}
	return time.Time{}
}

// recorded is the moment that is known of a taint, or of the one that it replaced;
// zero if none is.
func (h *host) recorded(t *model.Taint) (since time.Time) {
	for _, m := range h.moments {
		switch {
		case m.key == t.Key && (m.own || m.stamp.Equal(t.Added)):
			return m.since
		case m.key == model.Opposite(t.Key) && m.stamp.Equal(t.Added):
			since = m.since
		}
	}
	return since
}

// stamp gives taints that replace another one the timeAdded that the object has of
// that, in place of the moment since when it counts.
func (h *host) stamp(taints []model.Taint) {
	for i := range taints {
		t := &taints[i]
		for _, m := range h.moments {
			if m.key == model.Opposite(t.Key) && m.since.Equal(t.Added) && !m.stamp.IsZero() && !m.own {
				t.Added = m.stamp
			}
		}
	}
}

// dateOwn stores that a write of taints succeeded at this moment: the pods of the
// host have their time from then on, not from when the write was decided.
func (h *host) dateOwn(a *Action, now time.Time) {
	for i := range a.Add {
		t := &a.Add[i]
		if t.Effect != model.NoExecute {
			continue
		}
		since := h.recorded(t)
		if a.Fresh(t) {
			since = now
		}
		if !since.IsZero() {
			h.moments = append(h.moments, moment{key: t.Key, stamp: t.Added, since: since, own: true})
		}
	}
}

// dateReady remembers when a transition of Ready was seen that is dated later: a
// clock that is ahead moves no timer.
func (h *host) dateReady(now time.Time) {
	switch at := h.object.Conditions[model.Ready].Transition; {
	case !at.After(now):
		h.turned = moment{}
	case !h.turned.stamp.Equal(at):
		h.turned = moment{stamp: at, since: now}
	}
}

// see puts together what is known of the host: the object, what was written
// since, and that nobody hears of it.
func (h *host) see() {
	h.view = h.object
	known := !h.lost && len(h.beliefs) == 0 && len(h.moments) == 0 && h.turned.since.IsZero()
	if h.object == nil || known {
		return
	}
	n := *h.object
	n.Taints = slices.Clone(n.Taints)
	if r := &n.Conditions[model.Ready]; r.Transition.Equal(h.turned.stamp) && !h.turned.since.IsZero() {
		r.Transition = h.turned.since
	}
	for _, b := range h.beliefs {
		carryOut(b.action, b.at, &n)
	}
	for _, m := range h.moments {
		for i := range n.Taints {
			if t := &n.Taints[i]; t.Is(m.key, model.NoExecute) && t.Added.Equal(m.stamp) {
				t.Added = m.since
			}
		}
	}
	if h.lost {
		fallSilent(&n, h.fell)
	}
	h.view = &n
}
