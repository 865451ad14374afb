package inflight

import (
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Soft is the place of the soft eviction in a [Set].
const Soft = signals.ConditionCount

// A Set holds the evictions under way: one hard eviction for each condition, and one
// soft eviction. The zero value is empty.
type Set [signals.ConditionCount + 1]*Eviction

// place returns where an eviction belongs: by the condition that it relieves.
// Local-storage limits are about disks.
func place(e *eviction.Eviction) int {
	if !e.Hard {
		return Soft
	}
	if s, err := signals.Parse(e.Cause); err == nil {
		return int(s.Definition().Condition)
	}
	return int(signals.DiskPressure)
}

// Add puts an eviction in its place. A place is never taken: no threshold is acted for
// while the eviction in its place holds it.
func (set *Set) Add(e *Eviction) { set[place(e.Of)] = e }

// Remove takes an eviction out, if it is in.
func (set *Set) Remove(e *Eviction) {
	for i := range set {
		if set[i] == e {
			set[i] = nil
		}
	}
}

// Exiting reports whether killed processes still exist: they may be so many that a
// thread without real-time class does not get a processor beside them.
func (set *Set) Exiting() bool {
	for _, e := range set {
		if e != nil && e.state == Exiting {
			return true
		}
	}
	return false
}
