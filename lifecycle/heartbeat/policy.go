package heartbeat

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// SetPolicy replaces the policy; signs of life keep their times. It returns the nodes that were
// reported silent and are within their new grace period, in the order of names: they are silent no
// more. A node that the API has as silent stays so until its next sign of life.
func (w *Watch) SetPolicy(p Policy, now time.Time) (revived []string) {
	if p == w.policy {
		return nil
	}
	w.policy = p
	for name, s := range w.signs {
		switch {
		case !s.seen:
		case !s.silent:
			w.moveForward(name, s)
		case s.ready.status != model.Unknown && w.graceEnd(s) > now.UnixNano():
			s.silent = false
			w.due.Set(name, w.silentAt(s))
			revived = append(revived, name)
		}
	}
	slices.Sort(revived)
	return revived
}
