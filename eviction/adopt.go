package eviction

import (
	"cmp"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Adopt returns a machine with another policy that continues from the state of m: conditions with
// their transition periods, unknown signals, used observations, and the timers of thresholds. node is
// the last observation; its capacities make percentages comparable.
//
// A threshold that did not change keeps its state, whatever its grace period and minimum reclaim
// are now. Any other one is met since the time at which a threshold of its signal that is not
// higher was first observed to be met: less than that was available, hence less than this one.
// A threshold that was lowered begins anew, since nothing is known of the time before. So does a soft
// one above a threshold that may have been met by its minimum reclaim alone.
func (m *Machine) Adopt(p *Policy, node *signals.Observations) *Machine {
	next := New(p)
	next.unknownSince, next.sample, next.conditions, next.lastMet = m.unknownSince, m.sample, m.conditions, m.lastMet
	for i := range p.Thresholds {
		t := &p.Thresholds[i]
		from := m.predecessors(t, &node[t.Signal])
		for j := range m.policy.Thresholds {
			if !from.has(j) {
				continue
			}
			next.firstObserved[i] = earlier(next.firstObserved[i], m.firstObserved[j])
			if m.reclaimApplies.has(j) && t.Hard() == m.policy.Thresholds[j].Hard() {
				next.reclaimApplies.add(i)
			}
		}
	}
	return next
}

// earlier returns the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// predecessors returns the thresholds that determine the state of a threshold of the next policy: the
// same one; or else those with its value and kind; or else all that it covers.
func (m *Machine) predecessors(t *Threshold, o *signals.Observation) thresholdSet {
	var equal, covered thresholdSet
	for i := range m.policy.Thresholds {
		switch old := &m.policy.Thresholds[i]; {
		case *old == *t:
			var same thresholdSet
			same.add(i)
			return same
		case old.Signal != t.Signal:
		case old.Hard() == t.Hard() && old.Value.equals(t.Value):
			equal.add(i)
		case t.Value.covers(old.Value, o) && (!m.reclaimApplies.has(i) || t.coversReclaim(old, o)):
			covered.add(i)
		}
	}
	if equal != 0 {
		return equal
	}
	return covered
}

// coversReclaim reports whether t counts the minimum reclaim of a threshold that it covers, or does not depend
// on it: a hard one has no grace period.
func (t *Threshold) coversReclaim(old *Threshold, o *signals.Observation) bool {
	return t.Hard() || old.MinReclaim.equals(Value{}) || !old.Hard() && t.MinReclaim.covers(old.MinReclaim, o)
}

// equals reports whether two values are the same amount, however they are written.
func (v Value) equals(w Value) bool {
	return v.Fraction == w.Fraction && (v.Fraction > 0 || v.Quantity.Value == w.Quantity.Value)
}

// covers reports whether less than v is available whenever less than w is. An amount and a percentage
// are comparable while the signal is known.
func (v Value) covers(w Value, o *signals.Observation) bool {
	switch {
	case v.Fraction > 0 && w.Fraction > 0:
		return v.Fraction >= w.Fraction
	case v.Fraction == 0 && w.Fraction == 0:
		return v.Quantity.Value >= w.Quantity.Value
	}
	return o.Known && v.Of(o.Capacity).Value >= w.Of(o.Capacity).Value
}

// Adopt replaces the thresholds that the verdict found to be met by their successors in the policy of
// another machine: those of the same signal and kind, or else all of the signal, or else all of its
// condition. [Machine.StillMet] of that machine, which has adopted the policy, then applies to the
// verdict. Its target and its reason remain.
func (v *Verdict) Adopt(before *Policy, next *Machine) {
	var met thresholdSet
	for i := range before.Thresholds {
		if v.pastGrace.has(i) {
			met |= next.successors(&before.Thresholds[i])
		}
	}
	v.pastGrace, v.ready = met, 0
}

// successors returns the thresholds of the same signal and kind, or else all of the signal, or else all
// of its condition: these may evict, while what the eviction frees is not available yet. For a soft one,
// another soft one counts only if its own grace period has passed, or if it was raised: a pod must not
// end for a grace period that has not.
func (m *Machine) successors(old *Threshold) thresholdSet {
	var ofKind, ofSignal, ofCondition thresholdSet
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		if t.Signal.Definition().Condition != old.Signal.Definition().Condition {
			continue
		}
		same := t.Signal == old.Signal && t.Value.equals(old.Value)
		if inGrace := !t.Hard() && !m.reclaimApplies.has(i); inGrace && !same && !old.Hard() {
			continue
		}
		ofCondition.add(i)
		if t.Signal != old.Signal {
			continue
		}
		ofSignal.add(i)
		if t.Hard() == old.Hard() {
			ofKind.add(i)
		}
	}
	return cmp.Or(ofKind, ofSignal, ofCondition)
}
