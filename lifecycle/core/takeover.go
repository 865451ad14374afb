package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A takeover is what is made up for when the lead begins, of what the API does
// not say.
type takeover struct {
	predecessorAlive time.Time // the former leader was surely at work then; zero: nobody knows
	zones            map[model.Place]*zoneHistory
	// Of the nodes that count: when the first of those that are ready became so, and
	// when the last of the others ceased to be.
	firstReady, lastUnready time.Time
}

// An zoneHistory is what a zone's nodes tell of its tokens.
type zoneHistory struct {
	spent   time.Time // its last token, as far as can be seen
	changed time.Time // a node's Ready changed last
	waits   bool      // a node has waited for a token, under the former leader
}

// waitMargin is by how much a node has to have waited before the former leader is
// believed to have had no token for it, and not only no time.
const waitMargin = time.Second

// Lead begins decisions: everything of interest has been observed.
// predecessorAlive is when the former leader was surely at work; zero if there
// was none, or nobody knows. It looks at all nodes and pods.
func (f *Fleet) Lead(predecessorAlive, now time.Time) {
	f.now, f.leading = now, true
	f.resetDecisions()
	f.takeover = &takeover{predecessorAlive: predecessorAlive, zones: map[model.Place]*zoneHistory{}}
	for _, node := range f.nodes {
		node.resetForTerm()
		f.touch(node)
		if node.object != nil && f.heartbeats.IsSilent(node.name) {
			f.suspect(node)
		}
	}
	for uid, w := range f.podWrites {
		f.scheduleRetry(uid, w) // what failed in an earlier term is still to be waited for
	}
}

// StopLeading ends decisions: another leads. Writes under way are still to be finished.
func (f *Fleet) StopLeading(now time.Time) {
	f.now, f.leading = now, false
	f.resetDecisions()
}

// resetForTerm forgets what an earlier lead decided about a host. Writes that are under
// way stay so.
func (node *nodeState) resetForTerm() {
	*node = nodeState{name: node.name, object: node.object, view: node.object, pods: node.pods, taintTimes: node.taintTimes, readyTime: node.readyTime, statusWrite: node.statusWrite, taintWrite: node.taintWrite}
	node.taintWrite.spends = false
	for _, p := range node.pods {
		p.marked, p.scheduled, p.touched = false, false, false
	}
}

// adopt takes over the tokens that were spent: each NoExecute taint tells of one,
// and each node that lost all pods that it could, in the mode without taints.
func (f *Fleet) adopt() {
	if f.takeover == nil {
		return
	}
	for _, node := range f.nodes {
		if node.object != nil {
			f.takeover.adopt(f, node)
		}
	}
	for place, z := range f.takeover.zones {
		if !z.spent.IsZero() {
			f.zones.Adopt(place, z.spent, f.now)
		}
	}
}

func (t *takeover) adopt(f *Fleet, node *nodeState) {
	z := t.zones[node.place()]
	if z == nil {
		z = &zoneHistory{}
		t.zones[node.place()] = z
	}
	ready := &node.object.Conditions[model.Ready]
	if ready.Transition.After(z.changed) {
		z.changed = ready.Transition
	}
	switch {
	case node.object.Labels.Excluded:
	case ready.Status != model.True:
		t.lastUnready = latest(t.lastUnready, ready.Transition)
	default:
		t.firstReady = earliest(t.firstReady, ready.Transition)
	}
	spent := node.taintedAt()
	if at, ok := f.legacyDeadline(node); ok && !at.After(f.now) && !f.hasMovablePods(node) {
		spent = at
	}
	if spent.After(z.spent) {
		z.spent = spent
	}
	z.waits = z.waits || t.waits(f, node)
}

// waits reports whether a host stood in the former leader's queue.
func (t *takeover) waits(f *Fleet, node *nodeState) bool {
	if t.predecessorAlive.IsZero() || !f.needsToken(node) {
		return false
	}
	if why, _ := f.blockedBy(node); why != NotBlocked {
		return false
	}
	since := node.unreadySince
	if at, ok := f.legacyDeadline(node); ok {
		since = at
	}
	return since.Before(t.predecessorAlive.Add(-waitMargin))
}

// taintedAt is when the host got its NoExecute taint; zero without one.
func (node *nodeState) taintedAt() (at time.Time) {
	for i := range node.view.Taints {
		if t := &node.view.Taints[i]; ownNoExecute(t) && t.Added.After(at) {
			at = t.Added
		}
	}
	return at
}

// emptyBuckets empties the buckets of zones in which a node has waited though there
// seems to be a token: the former leader had none, because the zone's rate
// changed. It did when a node of it changed its Ready, at the latest then; or when
// nobody was ready anywhere until the first of those came back who are now.
func (f *Fleet) emptyBuckets() {
	if f.takeover == nil {
		return
	}
	for place, z := range f.takeover.zones {
		if !z.waits || !f.seemedToHaveToken(place, z) {
			continue
		}
		stopped := z.changed
		if f.takeover.firstReady.After(f.takeover.lastUnready) {
			stopped = latest(stopped, f.takeover.firstReady)
		}
		stopped = notAfter(f.now, stopped)
		if f.policy.LegacyEvictions {
			stopped = f.now
		}
		f.zones.Stop(place, stopped)
	}
	f.takeover = nil
}

// seemedToHaveToken reports whether a zone had a token under the former leader, by what
// can be seen of the last one.
func (f *Fleet) seemedToHaveToken(place model.Place, z *zoneHistory) bool {
	_, rate := f.zones.State(place)
	return rate > 0 && f.takeover.predecessorAlive.Add(-waitMargin).Sub(z.spent).Seconds() >= 1/rate
}

// latest is the later of two moments.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
