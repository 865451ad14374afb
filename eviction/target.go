package eviction

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// chooseTarget selects the first threshold in acting order that is ready: met with its grace passed,
// and with a sample newer than the one before.
func (m *Machine) chooseTarget(s *signals.Snapshot, v *Verdict) {
	for i := range m.policy.Thresholds {
		switch {
		case !v.pastGrace.has(i):
		case m.newer(m.policy.Thresholds[i].Signal, s):
			v.ready.add(i)
		default:
			v.Reason, v.reasonIndex = Stale, i
		}
	}
	m.aimAt(v, 0, func(*Threshold) bool { return true })
}

// aimAt makes the first ready threshold of a kind the target, from an index on. It reports whether
// there is one.
func (m *Machine) aimAt(v *Verdict, from int, ofKind func(*Threshold) bool) bool {
	for i := from; i < len(m.policy.Thresholds); i++ {
		if t := &m.policy.Thresholds[i]; v.ready.has(i) && ofKind(t) {
			v.Target, v.Reason, v.reasonIndex = t, Act, i
			v.Garbage = t.Signal.In(m.policy.Layout).Reclaim
			return true
		}
	}
	return false
}

// FirstHard makes the first ready hard threshold the target, and reports whether there is one.
func (m *Machine) FirstHard(v *Verdict) bool { return m.aimAt(v, 0, (*Threshold).Hard) }

// NextHard makes the next ready hard threshold after the target the new target, and reports
// whether there is one. It is for targets that are blocked.
func (m *Machine) NextHard(v *Verdict) bool { return m.aimAt(v, v.reasonIndex+1, (*Threshold).Hard) }

// MetSince returns when the verdict's target was first observed to be met. The verdict must have a
// target.
func (m *Machine) MetSince(v *Verdict) time.Time { return m.firstObserved[v.reasonIndex] }

func (m *Machine) newer(sig signals.Signal, s *signals.Snapshot) bool {
	last, now := m.sample[sig], s.Node[sig].Time
	return !last.known || now.IsZero() || now.After(last.at)
}
