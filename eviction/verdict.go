package eviction

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Verdict is the result of evaluating one check.
type Verdict struct {
	GracePassed signals.Set // signals of thresholds met with their grace passed
	Unknown     signals.Set // configured signals without an observation
	Imminent    signals.Set // signals that an early check acts for; Target may be of another one
	Conditions  signals.ConditionSet
	// CheckStorageLimits requests a check of local-storage limits, before Target.
	CheckStorageLimits bool
	// Target is the threshold to act for; nil: wait.
	Target  *Threshold
	Garbage []signals.Garbage // to collect before a pod is evicted
	Reason  Reason

	pastGrace   thresholdSet // all thresholds met with their grace passed
	ready       thresholdSet // those of them with a new sample
	reasonIndex int          // of the threshold of Reason; that of Target, if there is one
}

// Reason is the reason of a verdict.
type Reason uint8

// The reasons.
const (
	NothingMet  Reason = iota
	Ignored            // an early check while early evictions are off
	NotImminent        // an early check: crossed, but exhaustion is not imminent
	Unconfirmed        // an early check: crossed, imminent exhaustion not confirmed yet
	Grace              // soft threshold still in its grace period
	Stale              // met, but without a sample newer than the one used before
	Act
)

func (r Reason) String() string {
	return [...]string{"nothing met", "early evictions are off", "crossed, exhaustion not imminent",
		"crossed, imminent exhaustion not confirmed yet", "in grace period", "no new sample", "met"}[r]
}

// Explain returns the reason as a sentence with its figures.
func (m *Machine) Explain(v *Verdict, s *signals.Snapshot) string {
	if v.Reason == NothingMet || v.Reason == Ignored || v.reasonIndex >= len(m.policy.Thresholds) {
		return v.Reason.String()
	}
	t := &m.policy.Thresholds[v.reasonIndex]
	o := &s.Node[t.Signal]
	text := fmt.Sprintf("%s: %s, available %s", t, v.Reason, signals.Format(o.Available, t.Signal.Definition().Unit))
	switch v.Reason {
	case Grace:
		text += fmt.Sprintf(", met for %s of %s", s.At.Sub(m.firstObserved[v.reasonIndex]), t.Grace)
	case NotImminent, Unconfirmed:
		if lasts, falling := s.Rates[t.Signal].TimeToExhaustion(o.Headroom()); falling {
			text += fmt.Sprintf(", exhausted in %s at the present rate", lasts.Round(time.Millisecond))
		} else {
			text += ", not falling"
		}
	}
	return text
}

// About returns the threshold of the verdict's reason, or nil if nothing is met.
func (v *Verdict) About(p *Policy) *Threshold {
	if v.Reason == NothingMet || v.Reason == Ignored || v.reasonIndex >= len(p.Thresholds) {
		return nil
	}
	return &p.Thresholds[v.reasonIndex]
}
