package limiter

import (
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Saved is the state that survives a restart: all but the eviction not evaluated yet and the
// accounts of earlier ones. The end of that eviction was not observed.
type Saved struct {
	Evictions []time.Time `json:"evictions,omitempty"`
	// Namespaces are those of the evictions, in the same order. A state saved without them counts
	// for no namespace.
	Namespaces []string         `json:"namespaces,omitempty"`
	Conditions []SavedCondition `json:"conditions,omitempty"`
	Owners     []SavedOwner     `json:"owners,omitempty"`
}

// SavedCondition is the record of evictions for a condition.
type SavedCondition struct {
	Condition   string    `json:"condition"`
	Ineffective int       `json:"ineffective"` // consecutive
	Limits      int       `json:"limits,omitempty"`
	Until       time.Time `json:"until,omitzero"`
}

// SavedOwner is the record of an owner's pods.
type SavedOwner struct {
	Owner     string      `json:"owner"`
	Evictions []time.Time `json:"evictions"`
	Waits     int         `json:"waits,omitempty"`
	Until     time.Time   `json:"until,omitzero"`
}

// Changed reports whether the state has changed since the previous call.
func (r *Limiter) Changed() bool {
	if r == nil || !r.moved {
		return false
	}
	r.moved = false
	return true
}

// Save returns the state that has to survive a restart. It shares nothing with r.
func (r *Limiter) Save() Saved {
	var s Saved
	for _, e := range r.spent {
		s.Evictions, s.Namespaces = append(s.Evictions, e.at), append(s.Namespaces, e.namespace)
	}
	for c := range signals.Condition(signals.ConditionCount) {
		if f := r.records[c].evaluated(); f.row() > 0 || f.limits > 0 {
			s.Conditions = append(s.Conditions, SavedCondition{c.String(), f.row(), f.limits, f.until})
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(r.owners)) {
		h := r.owners[owner]
		s.Owners = append(s.Owners, SavedOwner{owner, slices.Clone(h.evicted), h.waits, h.until})
	}
	return s
}

// At returns a copy of the state with each time t replaced by of(t). It shares nothing with s.
func (s Saved) At(of func(time.Time) time.Time) Saved {
	all := func(times []time.Time) []time.Time {
		times = slices.Clone(times)
		for i := range times {
			times[i] = of(times[i])
		}
		return times
	}
	s.Evictions, s.Namespaces = all(s.Evictions), slices.Clone(s.Namespaces)
	s.Conditions, s.Owners = slices.Clone(s.Conditions), slices.Clone(s.Owners)
	for i := range s.Conditions {
		s.Conditions[i].Until = of(s.Conditions[i].Until)
	}
	for i := range s.Owners {
		s.Owners[i].Evictions, s.Owners[i].Until = all(s.Owners[i].Evictions), of(s.Owners[i].Until)
	}
	return s
}

// Restore continues from a saved state. Times get the monotonic reading of now. A missing time,
// or one in the future after the clock was set back, counts as now. A limit never lasts longer
// than the maximum.
func (r *Limiter) Restore(s Saved, now time.Time) {
	past := func(t time.Time) time.Time {
		if t.IsZero() {
			return now
		}
		return now.Add(min(t.Sub(now), 0))
	}
	within := func(t time.Time, maxBackoff time.Duration) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Add(min(t.Sub(now), maxBackoff))
	}
	r.restoreSpent(s, past)
	for _, saved := range s.Conditions {
		for c := range signals.Condition(signals.ConditionCount) {
			if c.String() == saved.Condition {
				r.records[c] = record{accounts: spent(saved.Ineffective), limits: saved.Limits, until: within(saved.Until, MaxIneffectiveBackoff)}
			}
		}
	}
	for _, saved := range s.Owners {
		h := &history{waits: saved.Waits, until: within(saved.Until, MaxOwner)}
		for _, t := range saved.Evictions {
			h.evicted = append(h.evicted, past(t))
		}
		r.owners[saved.Owner] = h
	}
}

// restoreSpent restores the evictions of the hour, with their times mapped by past.
func (r *Limiter) restoreSpent(s Saved, past func(time.Time) time.Time) {
	for i, t := range s.Evictions {
		namespace := ""
		if i < len(s.Namespaces) {
			namespace = s.Namespaces[i]
		}
		r.spend(namespace, past(t))
	}
	slices.SortStableFunc(r.spent, func(a, b spending) int { return a.at.Compare(b.at) })
}

// spent returns n accounts of evictions with nothing left.
func spent(n int) []account {
	accounts := make([]account, min(max(n, 0), MaxIneffectiveLimit))
	for i := range accounts {
		accounts[i].expected = 1
	}
	return accounts
}
