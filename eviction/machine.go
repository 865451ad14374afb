package eviction

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A Machine is the state of the decisions between looks. It is owned by one
// goroutine.
type Machine struct {
	policy *Policy

	firstObserved []time.Time  // by threshold: since when it is met; zero: unmet
	acted         thresholdSet // met with grace passed at the look before: min-reclaim applies
	unknownSince  [signals.Count]time.Time
	sample        [signals.Count]sample

	conditions signals.ConditionSet
	lastMet    [signals.ConditionCount]time.Time
}

// A sample is when the observation of the look before was measured.
type sample struct {
	at    time.Time
	known bool
}

// New returns a machine that has seen nothing yet.
func New(p *Policy) *Machine {
	return &Machine{policy: p, firstObserved: make([]time.Time, len(p.Thresholds))}
}

// Policy returns what the machine was made with.
func (m *Machine) Policy() *Policy { return m.policy }

// Conditions are the pressure conditions that are True after the last look.
func (m *Machine) Conditions() signals.ConditionSet { return m.conditions }

// Evaluate holds the thresholds against a snapshot and says what follows.
func (m *Machine) Evaluate(s *signals.Snapshot) Verdict {
	v := Verdict{Unknown: m.unknown(&s.Node)}
	full := m.regular(s.Kind)
	scope := m.scope(s, &v)
	if scope == 0 && !full {
		v.Conditions = m.conditions
		return v
	}
	if full {
		m.noteUnknown(s)
	}
	m.evaluate(s, scope, &v)
	m.moveConditions(s, full)
	m.choose(s, &v)
	m.keepSamples(s, full)
	v.CheckLimits = full && m.policy.StorageLimits
	v.Conditions = m.conditions
	return v
}

// Observes is what a look of a kind has to observe: extra looks that act as
// regular ones need every signal.
func (m *Machine) Observes(k signals.Kind) signals.Kind {
	if m.regular(k) {
		return signals.Periodic
	}
	return k
}

func (m *Machine) regular(k signals.Kind) bool {
	return k == signals.Periodic || m.policy.EarlyEviction == Immediate
}

// scope returns the thresholds that a look may decide for: all in a regular
// one, the hard ones of memory in an extra one that finds memory doomed.
func (m *Machine) scope(s *signals.Snapshot, v *Verdict) thresholdSet {
	switch {
	case m.regular(s.Kind):
		return m.policy.all
	case m.policy.EarlyEviction == Never:
		v.Reason = Ignored
		return 0
	case m.imminent(s, v):
		return m.policy.hardMemory
	}
	return 0
}

// imminent reports whether a hard memory threshold is crossed and what is left of
// the memory would be gone within the reaction reserve at the rate it fell. Page
// cache in active use is part of that: a stream through files, which crosses
// thresholds as fast as a program that fills memory, is none's doom.
func (m *Machine) imminent(s *signals.Snapshot, v *Verdict) bool {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &s.Node[t.Signal]
		if !m.policy.hardMemory.has(i) || !o.Known || !t.met(o) {
			continue
		}
		doomed := o.Headroom() <= 0 || s.Rates[t.Signal].Within(o.Headroom(), m.policy.EarlyEvictionHorizon)
		if v.Reason = NotImminent; doomed || v.Imminent == 0 {
			v.about = i
		}
		if doomed {
			v.Imminent.Add(t.Signal)
		}
	}
	if s.NeedsConfirmation && v.Imminent != 0 {
		v.Imminent, v.Reason = 0, Unconfirmed
	}
	return v.Imminent != 0
}

// Imminent is the signals that an extra look would act for.
func (m *Machine) Imminent(s *signals.Snapshot) signals.Set {
	var v Verdict
	m.imminent(s, &v)
	return v.Imminent
}

// StillImminent reports whether memory that an extra look found doomed is so by a
// later observation, too: the fall goes on from where it was taken. What is
// unknown now is as it was.
func (m *Machine) StillImminent(s *signals.Snapshot, now *signals.Observations) bool {
	if m.regular(s.Kind) {
		return true
	}
	later := signals.Snapshot{Node: *now, Rates: s.Rates}
	for sig := range signals.All {
		before, now := &s.Node[sig], &now[sig]
		switch fell := &later.Rates[sig]; {
		case !before.Known || !sig.OfMemory():
		case !now.Known:
			later.Node[sig] = *before
		case now.Epoch != before.Epoch: // the fall was taken from what was off
			*fell = signals.Rate{}
		default:
			fell.By += before.Headroom() - now.Headroom()
			fell.Over += now.Time.Sub(before.Time)
		}
	}
	var v Verdict
	return m.imminent(&later, &v)
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

// lost reports whether the signal has been unknown for so long that what was
// known of it before no longer counts.
func (m *Machine) lost(s signals.Signal, now time.Time) bool {
	since := m.unknownSince[s]
	return !since.IsZero() && now.Sub(since) > m.policy.TransitionPeriod
}

// evaluate moves the timers and the hysteresis of the thresholds in scope.
func (m *Machine) evaluate(s *signals.Snapshot, scope thresholdSet, v *Verdict) {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &s.Node[t.Signal]
		switch {
		case !scope.has(i):
			continue
		case !o.Known && !m.lost(t.Signal, s.At):
			continue // neither met nor unmet: nothing moves
		case !o.Known, !t.met(o) && !(m.acted.has(i) && t.metWithReclaim(o)):
			m.firstObserved[i] = time.Time{}
			m.acted.remove(i)
			continue
		}
		if m.firstObserved[i].IsZero() {
			m.firstObserved[i] = s.At
		}
		m.lastMet[t.Signal.Definition().Condition] = s.At
		if s.At.Sub(m.firstObserved[i]) < t.Grace {
			m.acted.remove(i)
			v.Reason, v.about = Grace, i
			continue
		}
		m.acted.add(i)
		v.past.add(i)
		v.Met.Add(t.Signal)
	}
}

// moveConditions sets conditions at once and clears them after the transition
// period; while a signal of theirs is unknown they stay as they were.
func (m *Machine) moveConditions(s *signals.Snapshot, full bool) {
	var next signals.ConditionSet
	for c := range signals.Condition(signals.ConditionCount) {
		met := !m.lastMet[c].IsZero() && s.At.Sub(m.lastMet[c]) < m.policy.TransitionPeriod
		held := m.conditions.Has(c) && (!full || m.anyUnknown(c, s))
		if met || held {
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

// keepSamples remembers when the observations were measured: all of them in a
// regular look, only those of memory in an extra one that decided.
func (m *Machine) keepSamples(s *signals.Snapshot, full bool) {
	for sig := range signals.All {
		if full || sig.OfMemory() {
			m.sample[sig] = sample{s.Node[sig].Time, s.Node[sig].Known}
		}
	}
}

// StillMet reports whether a threshold that was met with its grace passed in
// the verdict's look is still met, minimum reclaim included, by a later
// observation. A signal that has become unknown does not count as recovered.
func (m *Machine) StillMet(v *Verdict, now *signals.Observations) bool {
	return m.stillMet(v, now, func(signals.Condition) bool { return true })
}

// StillMetOf is StillMet for the thresholds of one condition. It may be called
// beside the goroutine that owns the machine.
func (m *Machine) StillMetOf(v *Verdict, now *signals.Observations, c signals.Condition) bool {
	return m.stillMet(v, now, func(of signals.Condition) bool { return of == c })
}

func (m *Machine) stillMet(v *Verdict, now *signals.Observations, counts func(signals.Condition) bool) bool {
	for i := range m.policy.Thresholds {
		t := &m.policy.Thresholds[i]
		o := &now[t.Signal]
		if v.past.has(i) && counts(t.Signal.Definition().Condition) && (!o.Known || t.metWithReclaim(o)) {
			return true
		}
	}
	return false
}
