package core

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/evictions"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// updateEvictingTaints finds the taints that evict the node's pods, and touches all of
// them if that changed.
func (f *Fleet) updateEvictingTaints(node *nodeState) {
	evicting, suspended := f.evictingTaints(node)
	if !node.timersStale && suspended == node.taintsSuspended && slices.Equal(evicting, node.evictingTaints) {
		return
	}
	node.evictingTaints, node.taintsSuspended, node.timersStale = evicting, suspended, false
	for _, p := range node.pods {
		f.touchPod(p)
	}
}

// evictingTaints returns the taints that evict the node's pods; suspended reports that
// others do not at present.
func (f *Fleet) evictingTaints(node *nodeState) (evicting []model.Taint, suspended bool) {
	if !f.policy.TaintEvictions || node.object == nil {
		return nil, false
	}
	for _, t := range node.view.Taints {
		switch {
		case t.Effect != model.NoExecute:
		case !ownNoExecute(&t) || !f.policy.NoExecute:
			evicting = append(evicting, t)
		case node.ready() == model.True || f.budgets.allDisrupted:
			// It is about to be removed, and evicts no pods any more.
		case f.isSuspended(node, &t):
			suspended = true
		default:
			t.Swapped = node.view.Swapped(&t)
			evicting = append(evicting, t)
		}
	}
	return evicting, suspended
}

// isSuspended reports whether one of our taints evicts no pods at present. After a
// takeover, the date of a lease within the grace period is not enough for that: the
// node's clock wrote it, and the taint is there.
func (f *Fleet) isSuspended(node *nodeState, t *model.Taint) bool {
	if f.budgets.exceeded || f.paused(node) {
		return true
	}
	why, _ := f.markingBlockedBy(node)
	return why == HeartbeatResumed && node.health.resumed() || why == Autonomous && t.Key == model.KeyUnreachable
}

// taintsInFlight reports whether a write of the taints that evict pods is under way.
// Its result decides whether and when the pods go, so all of them are touched after it.
func (node *nodeState) taintsInFlight() bool {
	is := node.taintWrite.underWay() && node.taintWrite.noExecute
	node.timersStale = node.timersStale || is
	return is
}

// departure is the eviction of a pod, or the end of a scheduled one.
type departure struct {
	at        time.Time
	pod       *pod
	why       Why
	cancelled bool
}

// schedule sets or cancels a pod's timer, and appends a departure if that cancels its
// eviction.
func (f *Fleet) schedule(p *pod, leaving []departure) []departure {
	uid, writes := p.object.UID, f.podWrites[p.object.UID]
	if writes != nil && writes.evict.underWay() {
		return leaving // its result is known soon
	}
	if p.node.taintsInFlight() {
		return leaving
	}
	at, ok := evictions.Deadline(p.object, p.node.evictingTaints)
	if ok {
		if writes != nil && writes.evict.notBefore.After(at) {
			at = writes.evict.notBefore
		}
		f.timers.Set(uid, at)
		p.scheduled = writes == nil || !writes.deleted
		return leaving
	}
	f.timers.Cancel(uid)
	if p.scheduled && writes != nil && writes.evict != (write{}) { // a later eviction starts without backoff
		writes.evict = write{}
		f.scheduleRetry(uid, writes)
	}
	if p.scheduled && !p.object.Deleting && !p.node.taintsSuspended {
		leaving = append(leaving, departure{at: f.now, pod: p, cancelled: true})
	}
	p.scheduled = p.scheduled && !p.object.Deleting && p.node.taintsSuspended
	return leaving
}

// due appends the pods with a due timer.
func (f *Fleet) due(leaving []departure) []departure {
	for _, uid := range f.timers.Due(f.now) {
		p := f.pods[uid]
		if p.node.taintsInFlight() {
			continue
		}
		if at, ok := evictions.Deadline(p.object, p.node.evictingTaints); ok {
			leaving = append(leaving, departure{at: at, pod: p, why: ByTaint})
		}
	}
	return leaving
}

// evict appends the evictions of the pods that are due, and their cancellations.
func (f *Fleet) evict(out []Action) []Action {
	f.departures = f.due(f.departures)
	slices.SortStableFunc(f.departures, func(a, b departure) int { return cmp.Or(a.at.Compare(b.at), byKey(a.pod, b.pod)) })
	for _, d := range f.departures {
		p := d.pod
		a := Action{Kind: Cancel, Node: p.node.name, Object: p.node.object, Pod: p.object, at: f.now}
		if !d.cancelled {
			writes := f.writesOf(p.object.UID)
			if writes.evict.underWay() {
				continue // for another reason
			}
			a.Kind, a.Why, a.id = Evict, d.why, f.start(&writes.evict)
			a.Due, a.First = d.at, writes.evict.first
		}
		out = append(out, a)
	}
	clear(f.departures)
	f.departures = f.departures[:0]
	return out
}
