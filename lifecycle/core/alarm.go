package core

import "time"

// setAlarm has a host looked at again when something about it is due that nobody
// will observe.
func (f *Fleet) setAlarm(h *host) {
	if h.object == nil {
		return
	}
	at := earliest(f.upcoming(h.status.from), f.upcoming(h.spec.from), f.ripens(h))
	if len(h.beliefs) > 0 {
		at = earliest(at, h.beliefs[0].until)
	}
	if _, until := f.hold(h); h.unready() {
		at = earliest(at, until)
	}
	if at.IsZero() {
		f.alarms.Remove(h.name)
		return
	}
	f.alarms.Set(h.name, at)
}

// upcoming is the moment, if it is to come; else zero.
func (f *Fleet) upcoming(t time.Time) time.Time {
	if !t.After(f.now) {
		return time.Time{}
	}
	return t
}

// ripens is when a host will have been dead for long enough to lose its pods.
func (f *Fleet) ripens(h *host) time.Time {
	at, ok := f.expiry(h)
	if !ok {
		return time.Time{}
	}
	return f.upcoming(at)
}
