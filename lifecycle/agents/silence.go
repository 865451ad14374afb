package agents

import "time"

// SilentAt is when the agent on the node will not be alive any more unless it is
// heard again; ok is false without a lease. It may be long past.
func (w *Watch) SilentAt(name string) (at time.Time, ok bool) {
	n := w.nodes[name]
	if n == nil || !n.leased {
		return time.Time{}, false
	}
	return time.Unix(0, n.last).Add(w.policy.Grace), true
}
