package inflight

import "plimsoll.dev/plimsoll/eviction"

// Adopt continues the eviction under the policy of another machine: the wait for its effect then follows
// the thresholds of that one. If it has none for the condition, nothing has to be freed any more.
func (e *Eviction) Adopt(before *eviction.Policy, next *eviction.Machine) {
	e.verdict.Adopt(before, next)
}
