package inflight

import "plimsoll.dev/plimsoll/eviction"

// Adopt continues the eviction under another policy: the wait for its effect then follows the thresholds
// of that one. If it has none for the signal, nothing has to be freed any more.
func (e *Eviction) Adopt(before, after *eviction.Policy) { e.verdict.Adopt(before, after) }
