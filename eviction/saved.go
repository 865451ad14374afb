package eviction

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Saved is the part of a machine's state that survives a restart of the agent: first-observed
// times, conditions and the minimum-reclaim state. Times of samples and rates of memory are
// measured anew.
type Saved struct {
	Thresholds []SavedThreshold `json:"thresholds,omitempty"`
	Conditions []SavedCondition `json:"conditions,omitempty"`
	Unknown    []SavedUnknown   `json:"unknown,omitempty"`
}

// SavedThreshold is a met threshold.
type SavedThreshold struct {
	Threshold      string    `json:"threshold"` // Threshold.String with its minimum reclaim
	FirstObserved  time.Time `json:"firstObserved"`
	ReclaimApplies bool      `json:"acted"` // its grace had passed
}

// SavedCondition is a condition that was met before.
type SavedCondition struct {
	Condition string    `json:"condition"`
	True      bool      `json:"true"`
	LastMet   time.Time `json:"lastMet"`
}

// SavedUnknown is a signal without observation.
type SavedUnknown struct {
	Signal string    `json:"signal"`
	Since  time.Time `json:"since"`
}

// Save returns the state that has to survive a restart.
func (m *Machine) Save() Saved {
	var s Saved
	for i, since := range m.firstObserved {
		if !since.IsZero() {
			s.Thresholds = append(s.Thresholds, SavedThreshold{m.policy.Thresholds[i].identity(), since, m.reclaimApplies.has(i)})
		}
	}
	for c := range signals.Condition(signals.ConditionCount) {
		if !m.lastMet[c].IsZero() {
			s.Conditions = append(s.Conditions, SavedCondition{c.String(), m.conditions.Has(c), m.lastMet[c]})
		}
	}
	for sig := range signals.All {
		if since := m.unknownSince[sig]; !since.IsZero() && m.policy.Configured.Has(sig) {
			s.Unknown = append(s.Unknown, SavedUnknown{sig.String(), since})
		}
	}
	return s
}

// At returns a copy of the state with each time t replaced by of(t). It shares nothing with s.
func (s Saved) At(of func(time.Time) time.Time) Saved {
	s.Thresholds, s.Conditions, s.Unknown = slices.Clone(s.Thresholds), slices.Clone(s.Conditions), slices.Clone(s.Unknown)
	for i := range s.Thresholds {
		s.Thresholds[i].FirstObserved = of(s.Thresholds[i].FirstObserved)
	}
	for i := range s.Conditions {
		s.Conditions[i].LastMet = of(s.Conditions[i].LastMet)
	}
	for i := range s.Unknown {
		s.Unknown[i].Since = of(s.Unknown[i].Since)
	}
	return s
}

// RestoreSamples continues after the check of a snapshot, which had the saved state as its result: an
// observation that it used is no new one.
func (m *Machine) RestoreSamples(s *signals.Snapshot) { m.keepSamples(s, m.periodic(s.Kind)) }

// Restore continues from a saved state. The state of thresholds no longer configured is dropped.
// A missing time, or one in the future because the clock was set back, counts as now. All times
// get the monotonic reading of now, so that a later clock change affects no timer.
func (m *Machine) Restore(s Saved, now time.Time) {
	past := func(t time.Time) time.Time {
		if t.IsZero() {
			return now
		}
		return now.Add(min(t.Sub(now), 0))
	}
	for _, saved := range s.Thresholds {
		for i := range m.policy.Thresholds {
			if m.policy.Thresholds[i].identity() == saved.Threshold {
				m.firstObserved[i] = past(saved.FirstObserved)
				if saved.ReclaimApplies {
					m.reclaimApplies.add(i)
				}
			}
		}
	}
	for _, saved := range s.Conditions {
		for c := range signals.Condition(signals.ConditionCount) {
			if c.String() == saved.Condition {
				m.lastMet[c] = past(saved.LastMet)
				if saved.True {
					m.conditions.Add(c)
				}
			}
		}
	}
	for _, saved := range s.Unknown {
		if sig, err := signals.Parse(saved.Signal); err == nil {
			m.unknownSince[sig] = past(saved.Since)
		}
	}
}
