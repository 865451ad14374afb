package heartbeat

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Node updates a node, at its first observation or after a change of its object.
func (w *Watch) Node(n *model.Node, now time.Time) {
	s := w.of(n.Name)
	was, is := s.ready, readyOf(n)
	s.ready = is
	if !s.seen || s.uid != n.UID {
		s.seen, s.uid = true, n.UID
		w.initialise(n, s, now)
		return
	}
	if is.writtenByNode(was) {
		w.recordSign(n.Name, s, now)
	}
	w.moveForward(n.Name, s)
}

// Renewed updates a node's lease, which may be observed before its node. A renewTime that differs
// from the last one is a sign of life. This includes an earlier one, after a correction of the
// node's clock. It counts from its observation, which may be earlier than the now of other calls,
// and never invalidates later signs.
//
// It costs O(1) and allocates nothing, except for a lease observed for the first time and for a
// silent node.
func (w *Watch) Renewed(name string, renewTime, seen time.Time) {
	s := w.of(name)
	known, was := s.leased, s.lease
	s.leased, s.lease = true, renewTime.UnixNano()
	switch {
	case !s.seen || known && was == s.lease:
	case known:
		w.recordSign(name, s, seen)
	default:
		w.applyFirstLease(name, s, seen)
	}
}

// Unleased records the deletion of a node's lease, which has no effect on the node's last sign of
// life.
func (w *Watch) Unleased(name string, _ time.Time) {
	s := w.signs[name]
	if s == nil {
		return
	}
	s.leased = false
	if !s.seen {
		delete(w.signs, name)
	}
}

// Forget records the deletion of a node.
func (w *Watch) Forget(name string) {
	delete(w.signs, name)
	w.due.Remove(name)
}

func (w *Watch) of(name string) *signs {
	s := w.signs[name]
	if s == nil {
		s = &signs{}
		w.signs[name] = s
	}
	return s
}

// initialise sets the state of a node at its first observation, from its objects.
func (w *Watch) initialise(n *model.Node, s *signs, now time.Time) {
	s.last = notAfter(now, max(n.Created.UnixNano(), s.ready.heartbeat))
	if s.leased {
		s.last = max(s.last, notAfter(now, s.lease))
	}
	s.notBefore = now.Add(w.policy.Renewal).UnixNano()
	s.silent = s.ready.status == model.Unknown
	if s.silent {
		w.due.Set(n.Name, now) // report it, however recent its last sign of life seems
		return
	}
	w.due.Set(n.Name, w.silentAt(s))
}

// applyFirstLease applies the first lease of a node that was observed without one, as if both had
// been observed together. After a change of leader nodes and leases arrive in any order, and old
// leases are no signs of life.
func (w *Watch) applyFirstLease(name string, s *signs, now time.Time) {
	s.last = max(s.last, notAfter(now, s.lease))
	if s.silent && s.ready.status != model.Unknown && w.silentAt(s).After(now) {
		s.silent = false
		w.due.Set(name, w.silentAt(s))
	}
}

// recordSign records a sign of life.
func (w *Watch) recordSign(name string, s *signs, at time.Time) {
	s.last = max(s.last, at.UnixNano())
	if s.silent {
		s.silent = false
		w.due.Set(name, w.silentAt(s))
	}
}

// moveForward moves a node forward after its grace period became shorter. Only this direction is
// corrected at once.
func (w *Watch) moveForward(name string, s *signs) {
	if s.silent {
		return
	}
	if queued, ok := w.due.At(name); ok && w.silentAt(s).Before(queued) {
		w.due.Set(name, w.silentAt(s))
	}
}

// readyOf returns the node's condition Ready. A node that reports Unknown itself is one that
// reports a fault.
func readyOf(n *model.Node) ready {
	c := &n.Conditions[model.Ready]
	status := c.Status
	if status == model.Unknown && !c.MissedHeartbeat() {
		status = model.False
	}
	return ready{status, c.Heartbeat.UnixNano(), c.Transition.UnixNano()}
}

// writtenByNode reports whether the change from w to r was written by the node. The controller
// writes only Unknown: it keeps the heartbeat of an earlier status, and sets one for a missing
// condition.
func (r ready) writtenByNode(w ready) bool {
	switch {
	case r.status == model.Absent:
		return false
	case r.status == model.Unknown:
		return w.status != model.Absent && r.heartbeat != w.heartbeat
	}
	return r != w
}

// notAfter returns a written time, or now if that is earlier: no sign of life is in the future. A
// missing time is in the eighteenth century, by [time.Time.UnixNano], and therefore never the
// latest.
func notAfter(now time.Time, written int64) int64 { return min(written, now.UnixNano()) }
