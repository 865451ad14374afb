package inflight

import (
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Soft is the place of the soft eviction in a [Set].
const Soft = signals.ConditionCount

// Set holds the evictions in flight: one hard eviction for each condition, and one soft eviction.
// The zero value is empty.
type Set [signals.ConditionCount + 1]*Eviction

// place returns the index of an eviction: that of the condition it relieves. Local-storage limits
// are about disks.
func place(e *eviction.Eviction) int {
	if !e.Hard {
		return Soft
	}
	if s, err := signals.Parse(e.Cause); err == nil {
		return int(s.Definition().Condition)
	}
	return int(signals.DiskPressure)
}

// Add stores an eviction at its index, which must be free. The eviction at an index blocks all
// thresholds that could replace it.
func (set *Set) Add(e *Eviction) { set[place(e.Decided)] = e }

// Remove removes an eviction, if it is in the set.
func (set *Set) Remove(e *Eviction) {
	for i := range set {
		if set[i] == e {
			set[i] = nil
		}
	}
}

// Exiting reports whether killed processes still exist. There may be so many that a thread
// without real-time class gets no processor beside them.
func (set *Set) Exiting() bool {
	for _, e := range set {
		if e != nil && e.state == Exiting {
			return true
		}
	}
	return false
}
