package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// takeover stores what a new leader has to infer about the former one, since the API
// does not store it.
type takeover struct {
	predecessorAlive time.Time // the former leader was certainly running then; zero: not known
	zones            map[model.Place]*zoneHistory
	// Of the nodes that count: when the first of the ready ones became ready, and when
	// the last of the others became unready.
	firstReady, lastUnready time.Time
}

// zoneHistory is what the nodes of a zone show of its tokens.
type zoneHistory struct {
	spent   time.Time // the latest token, as far as the nodes show it
	changed time.Time // the latest change of a node's Ready
	waits   bool      // a node has waited for a token of the former leader
}

// waitMargin is how long a node must have waited before the former leader counts as
// without a token for it, and not only as late.
const waitMargin = time.Second

// Lead starts decisions; everything of interest has been observed. predecessorAlive is
// when the former leader was certainly running; zero if there was none, or if it
// is unknown. Lead visits all nodes and pods.
func (f *Fleet) Lead(predecessorAlive, now time.Time) {
	f.now, f.leading = now, true
	f.resetDecisions()
	f.takeover = &takeover{predecessorAlive: predecessorAlive, zones: map[model.Place]*zoneHistory{}}
	for _, node := range f.nodes {
		node.resetForTerm()
		f.touch(node)
		if node.object != nil && f.heartbeats.IsExpired(node.name) {
			f.suspect(node)
		}
	}
	for uid, w := range f.podWrites {
		f.scheduleRetry(uid, w) // backoff of an earlier term still counts
	}
}

// StopLeading ends decisions: another process leads. Writes under way are still to be
// finished.
func (f *Fleet) StopLeading(now time.Time) {
	f.now, f.leading = now, false
	f.resetDecisions()
	f.endDryRun(now)
}

// resetForTerm discards what an earlier term decided about a node, but not the writes
// that are under way.
func (node *nodeState) resetForTerm() {
	*node = nodeState{name: node.name, object: node.object, view: node.object, pods: node.pods, taintTimes: node.taintTimes, readyTime: node.readyTime, statusWrite: node.statusWrite, taintWrite: node.taintWrite}
	node.taintWrite.spends = false
	for _, p := range node.pods {
		p.marked, p.scheduled, p.touched = false, false, false
	}
}

// adopt takes over the tokens that were spent. Each NoExecute taint stands for one; so
// does, in the mode without taints, each node that lost all pods to evict.
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

// adopt adds a node to the history of its zone.
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

// waits reports whether a node was in the former leader's queue.
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

// taintedAt returns when the node got its NoExecute taint; zero without one.
func (node *nodeState) taintedAt() (at time.Time) {
	for i := range node.view.Taints {
		if t := &node.view.Taints[i]; ownNoExecute(t) && t.Added.After(at) {
			at = t.Added
		}
	}
	return at
}

// emptyBuckets empties the token buckets of zones in which a node has waited although a
// token seemed available: the former leader had none, because the rate of the zone had
// changed. That was at the latest when a node of the zone changed its Ready; or, if no
// node at all was ready before, when the first ready one became so.
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

// seemedToHaveToken reports whether a zone had a token under the former leader, as far
// as the last one that was spent shows.
func (f *Fleet) seemedToHaveToken(place model.Place, z *zoneHistory) bool {
	_, rate := f.zones.State(place)
	return rate > 0 && f.takeover.predecessorAlive.Add(-waitMargin).Sub(z.spent).Seconds() >= 1/rate
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
