package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A takeover is what is made up for when the lead begins, of what the API does
// not say.
type takeover struct {
	alive time.Time // the former leader was surely at work then; zero: nobody knows
	zones map[model.Place]*inheritance
	// Of the nodes that count: when the first of those that are ready became so, and
	// when the last of the others ceased to be.
	rise, fall time.Time
}

// An inheritance is what a zone's nodes tell of its tokens.
type inheritance struct {
	spent   time.Time // its last token, as far as can be seen
	changed time.Time // a node's Ready changed last
	waits   bool      // a node has waited for a token, under the former leader
}

// surely is by how much a node has to have waited before the former leader is
// believed to have had no token for it, and not only no time.
const surely = time.Second

// Lead begins decisions: everything of interest has been observed.
// predecessorAlive is when the former leader was surely at work; zero if there
// was none, or nobody knows. It looks at all nodes and pods.
func (f *Fleet) Lead(predecessorAlive, now time.Time) {
	f.now, f.leading = now, true
	f.begin()
	f.takeover = &takeover{alive: predecessorAlive, zones: map[model.Place]*inheritance{}}
	for _, h := range f.hosts {
		h.enrol()
		f.look(h)
		if h.object != nil && f.health.IsSilent(h.name) {
			f.suspect(h)
		}
	}
	for uid, w := range f.hands {
		f.afterwards(uid, w) // what failed in an earlier term is still to be waited for
	}
}

// Rest ends decisions: another leads. Writes under way are still to be finished.
func (f *Fleet) Rest(now time.Time) {
	f.now, f.leading = now, false
	f.begin()
}

// enrol forgets what an earlier lead decided about a host. Writes that are under
// way stay so.
func (h *host) enrol() {
	*h = host{name: h.name, object: h.object, view: h.object, pods: h.pods, moments: h.moments, turned: h.turned, status: h.status, spec: h.spec}
	h.spec.spends = false
	for _, p := range h.pods {
		p.marked, p.timed, p.looking = false, false, false
	}
}

// adopt takes over the tokens that were spent: each NoExecute taint tells of one,
// and each node that lost all pods that it could, in the mode without taints.
func (f *Fleet) adopt() {
	if f.takeover == nil {
		return
	}
	for _, h := range f.hosts {
		if h.object != nil {
			f.takeover.adopt(f, h)
		}
	}
	for place, z := range f.takeover.zones {
		if !z.spent.IsZero() {
			f.zones.Adopt(place, z.spent, f.now)
		}
	}
}

func (t *takeover) adopt(f *Fleet, h *host) {
	z := t.zones[h.place()]
	if z == nil {
		z = &inheritance{}
		t.zones[h.place()] = z
	}
	ready := &h.object.Conditions[model.Ready]
	if ready.Transition.After(z.changed) {
		z.changed = ready.Transition
	}
	switch {
	case h.object.Labels.Excluded:
	case ready.Status != model.True:
		t.fall = latest(t.fall, ready.Transition)
	default:
		t.rise = earliest(t.rise, ready.Transition)
	}
	spent := h.tainted()
	if at, ok := f.expiry(h); ok && !at.After(f.now) && !f.peopled(h) {
		spent = at
	}
	if spent.After(z.spent) {
		z.spent = spent
	}
	z.waits = z.waits || t.waits(f, h)
}

// waits reports whether a host stood in the former leader's queue.
func (t *takeover) waits(f *Fleet, h *host) bool {
	if t.alive.IsZero() || !f.wantsTurn(h) {
		return false
	}
	if why, _ := f.hold(h); why != NotHeld {
		return false
	}
	since := h.since
	if at, ok := f.expiry(h); ok {
		since = at
	}
	return since.Before(t.alive.Add(-surely))
}

// tainted is when the host got its NoExecute taint; zero without one.
func (h *host) tainted() (at time.Time) {
	for i := range h.view.Taints {
		if t := &h.view.Taints[i]; ours(t) && t.Added.After(at) {
			at = t.Added
		}
	}
	return at
}

// infer empties the buckets of zones in which a node has waited though there
// seems to be a token: the former leader had none, because the zone's rate
// changed. It did when a node of it changed its Ready, at the latest then; or when
// nobody was ready anywhere until the first of those came back who are now.
func (f *Fleet) infer() {
	if f.takeover == nil {
		return
	}
	for place, z := range f.takeover.zones {
		if !z.waits || !f.seemsToHave(place, z) {
			continue
		}
		stopped := z.changed
		if f.takeover.rise.After(f.takeover.fall) {
			stopped = latest(stopped, f.takeover.rise)
		}
		stopped = notAfter(f.now, stopped)
		if f.policy.LegacyEvictions {
			stopped = f.now
		}
		f.zones.Stop(place, stopped)
	}
	f.takeover = nil
}

// seemsToHave reports whether a zone had a token under the former leader, by what
// can be seen of the last one.
func (f *Fleet) seemsToHave(place model.Place, z *inheritance) bool {
	_, rate := f.zones.State(place)
	return rate > 0 && f.takeover.alive.Add(-surely).Sub(z.spent).Seconds() >= 1/rate
}

// latest is the later of two moments.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
