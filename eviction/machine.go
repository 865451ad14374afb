package eviction

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Machine is the state of the decisions between checks. It is owned by one goroutine.
type Machine struct {
	policy *Policy

	firstObserved  []time.Time  // by threshold: start of the time it has been met; zero: unmet
	reclaimApplies thresholdSet // met with grace passed in the last check of the threshold
	unknownSince   [signals.Count]time.Time
	sample         [signals.Count]sample

	conditions signals.ConditionSet
	lastMet    [signals.ConditionCount]time.Time
}

// sample is the time of the previous observation.
type sample struct {
	at    time.Time
	known bool
}

// New returns a machine without observations.
func New(p *Policy) *Machine {
	return &Machine{policy: p, firstObserved: make([]time.Time, len(p.Thresholds))}
}

// Policy returns the policy of the machine.
func (m *Machine) Policy() *Policy { return m.policy }

// Conditions returns the pressure conditions that are True after the last check.
func (m *Machine) Conditions() signals.ConditionSet { return m.conditions }

// Evaluate evaluates the thresholds for a snapshot and returns the verdict.
func (m *Machine) Evaluate(s *signals.Snapshot) Verdict {
	v := Verdict{Unknown: m.unknown(&s.Node)}
	full := m.periodic(s.Kind)
	scope := m.scope(s, &v)
	if scope == 0 && !full {
		v.Conditions = m.conditions
		return v
	}
	if full {
		m.noteUnknown(s)
	}
	m.updateThresholds(s, scope, &v)
	m.moveConditions(s, full)
	m.chooseTarget(s, &v)
	m.keepSamples(s, full)
	v.CheckStorageLimits = full && m.policy.StorageLimits
	v.Conditions = m.conditions
	return v
}

// Observes returns the kind of observation for a check of the given kind. Early checks that act
// as periodic ones need every signal.
func (m *Machine) Observes(k signals.Kind) signals.Kind {
	if m.periodic(k) {
		return signals.Periodic
	}
	return k
}

func (m *Machine) periodic(k signals.Kind) bool {
	return k == signals.Periodic || m.policy.EarlyEviction == Immediate
}

// scope returns the thresholds that a check may act for: all in a periodic one, and the hard ones
// of memory in an early one with imminent exhaustion.
func (m *Machine) scope(s *signals.Snapshot, v *Verdict) thresholdSet {
	switch {
	case m.periodic(s.Kind):
		return m.policy.all
	case m.policy.EarlyEviction == Never:
		v.Reason = Ignored
		return 0
	case m.noteImminent(s, v):
		return m.policy.hardMemory
	}
	return 0
}

// noteImminent sets Imminent of the verdict: the signals with a crossed hard memory threshold and a
// headroom that would be exhausted within EarlyEvictionHorizon at the present rate. It reports
// whether there is one. If there is none, it sets the reason of the verdict, too.
//
// The headroom includes page cache in active use: a stream through files crosses thresholds as fast
// as a program that fills memory, but exhausts nothing.
func (m *Machine) noteImminent(s *signals.Snapshot, v *Verdict) bool {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &s.Node[t.Signal]
		if !m.policy.hardMemory.has(i) || !o.Known || !t.crossed(o) {
			continue
		}
		imminent := o.Headroom() <= 0 || s.Rates[t.Signal].Within(o.Headroom(), m.policy.EarlyEvictionHorizon)
		v.Reason = NotImminent // chooseTarget replaces it if a signal is imminent
		if imminent || v.Imminent == 0 {
			v.reasonIndex = i
		}
		if imminent {
			v.Imminent.Add(t.Signal)
		}
	}
	if s.NeedsConfirmation && v.Imminent != 0 {
		v.Imminent, v.Reason = 0, Unconfirmed
	}
	return v.Imminent != 0
}

// Imminent returns the signals that an early check would act for.
func (m *Machine) Imminent(s *signals.Snapshot) signals.Set {
	var v Verdict
	m.noteImminent(s, &v)
	return v.Imminent
}

// StillImminent reports whether imminent exhaustion found by an early check is confirmed by a
// later observation. The rates are extended by that observation. A signal unknown now counts as
// unchanged.
func (m *Machine) StillImminent(s *signals.Snapshot, now *signals.Observations) bool {
	if m.periodic(s.Kind) {
		return true
	}
	later := signals.Snapshot{Node: *now, Rates: s.Rates}
	for sig := range signals.All {
		before, after := &s.Node[sig], &now[sig]
		switch fell := &later.Rates[sig]; {
		case !before.Known || !sig.OfMemory():
		case !after.Known:
			later.Node[sig] = *before
		case after.Epoch != before.Epoch: // the rate was based on a wrong observation
			*fell = signals.Rate{}
		default:
			fell.By += before.Headroom() - after.Headroom()
			fell.Over += after.Time.Sub(before.Time)
		}
	}
	var v Verdict
	return m.noteImminent(&later, &v)
}

func (m *Machine) unknown(node *signals.Observations) (set signals.Set) {
	for s := range signals.All {
		if m.policy.Configured.Has(s) && !node[s].Known {
			set.Add(s)
		}
	}
	return set
}

func (m *Machine) noteUnknown(s *signals.Snapshot) {
	for i := range s.Node {
		switch {
		case s.Node[i].Known:
			m.unknownSince[i] = time.Time{}
		case m.unknownSince[i].IsZero():
			m.unknownSince[i] = s.At
		}
	}
}

// lost reports whether a signal has been unknown for longer than the transition period, so that
// its earlier state no longer counts.
func (m *Machine) lost(s signals.Signal, now time.Time) bool {
	since := m.unknownSince[s]
	return !since.IsZero() && now.Sub(since) > m.policy.TransitionPeriod
}

// updateThresholds updates the timers and the hysteresis of the thresholds in scope.
func (m *Machine) updateThresholds(s *signals.Snapshot, scope thresholdSet, v *Verdict) {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &s.Node[t.Signal]
		switch {
		case !scope.has(i):
			continue
		case !o.Known && !m.lost(t.Signal, s.At):
			continue // neither met nor unmet: nothing changes
		case !o.Known, !t.met(o, m.reclaimApplies.has(i)):
			m.firstObserved[i] = time.Time{}
			m.reclaimApplies.remove(i)
			continue
		}
		if m.firstObserved[i].IsZero() {
			m.firstObserved[i] = s.At
		}
		m.lastMet[t.Signal.Definition().Condition] = s.At
		if s.At.Sub(m.firstObserved[i]) < t.Grace {
			m.reclaimApplies.remove(i)
			v.Reason, v.reasonIndex = Grace, i
			continue
		}
		m.reclaimApplies.add(i)
		v.pastGrace.add(i)
		v.GracePassed.Add(t.Signal)
	}
}

// moveConditions sets conditions at once and clears them after the transition period. A condition
// with an unknown signal stays as it is.
func (m *Machine) moveConditions(s *signals.Snapshot, full bool) {
	var next signals.ConditionSet
	for c := range signals.Condition(signals.ConditionCount) {
		met := !m.lastMet[c].IsZero() && s.At.Sub(m.lastMet[c]) < m.policy.TransitionPeriod
		retained := m.conditions.Has(c) && (!full || m.anyUnknown(c, s))
		if met || retained {
			next.Add(c)
		}
	}
	m.conditions = next
}

func (m *Machine) anyUnknown(c signals.Condition, s *signals.Snapshot) bool {
	for sig := range signals.All {
		if m.policy.Configured.Has(sig) && sig.Definition().Condition == c &&
			!s.Node[sig].Known && !m.lost(sig, s.At) {
			return true
		}
	}
	return false
}

// keepSamples stores the times of the observations: all of them in a periodic check, only those
// of memory in an early one that decided.
func (m *Machine) keepSamples(s *signals.Snapshot, full bool) {
	for sig := range signals.All {
		if full || sig.OfMemory() {
			m.sample[sig] = sample{s.Node[sig].Time, s.Node[sig].Known}
		}
	}
}

// StillMet reports whether a threshold met in the verdict's check, with its grace passed, is
// still met by a later observation, minimum reclaim included. A signal that has become unknown
// does not count as recovered.
func (m *Machine) StillMet(v *Verdict, now *signals.Observations) bool {
	return m.stillMet(v, now, func(signals.Condition) bool { return true })
}

// StillMetOf is StillMet for the thresholds of one condition. It is safe to call beside the
// goroutine that owns the machine.
func (m *Machine) StillMetOf(v *Verdict, now *signals.Observations, c signals.Condition) bool {
	return m.stillMet(v, now, func(of signals.Condition) bool { return of == c })
}

func (m *Machine) stillMet(v *Verdict, now *signals.Observations, counts func(signals.Condition) bool) bool {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &now[t.Signal]
		if v.pastGrace.has(i) && counts(t.Signal.Definition().Condition) && (!o.Known || t.met(o, true)) {
			return true
		}
	}
	return false
}
