package agents

import "time"

// ExpiresAt returns the time from which the agent on the node is not alive any more without a
// further renewal. Without a lease ok is false. The time may be long past.
func (w *Watch) ExpiresAt(name string) (at time.Time, ok bool) {
	n := w.nodes[name]
	if n == nil || !n.leased {
		return time.Time{}, false
	}
	return time.Unix(0, n.last).Add(w.policy.Grace), true
}
