package heartbeat

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// See takes in a node: for the first time, or because its object changed.
func (w *Watch) See(n *model.Node, now time.Time) {
	s := w.of(n.Name)
	was, is := s.ready, readyOf(n)
	s.ready = is
	if !s.seen || s.uid != n.UID {
		s.seen, s.uid = true, n.UID
		w.meet(n, s, now)
		return
	}
	if is.writtenByNode(was) {
		w.heard(n.Name, s, now)
	}
	w.hasten(n.Name, s)
}

// Renewed takes in a node's lease, which may come before its node. A renewTime
// other than the one before is a sign of life, an earlier one too: the node's
// clock was put right. It counts from when it was seen, which may be earlier than
// the now of other calls, and takes nothing back that was heard since. It is O(1)
// and allocates nothing, except for a lease seen for the first time and for a node
// that was silent.
func (w *Watch) Renewed(name string, renewTime, seen time.Time) {
	s := w.of(name)
	known, was := s.leased, s.lease
	s.leased, s.lease = true, renewTime.UnixNano()
	switch {
	case !s.seen || known && was == s.lease:
	case known:
		w.heard(name, s, seen)
	default:
		w.compareNotes(name, s, seen)
	}
}

// Unleased takes in that a node's lease was deleted, which says nothing of the
// node.
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

// Forget takes in that a node was deleted.
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

// meet begins with a node that was not seen before, by what its objects say.
func (w *Watch) meet(n *model.Node, s *signs, now time.Time) {
	s.last = notAfter(now, max(n.Created.UnixNano(), s.ready.heartbeat))
	if s.leased {
		s.last = max(s.last, notAfter(now, s.lease))
	}
	s.floor = now.Add(w.policy.Renewal).UnixNano()
	s.silent = s.ready.status == model.Unknown
	if s.silent {
		w.due.Set(n.Name, now) // to be told, however lately it seems to have been heard
		return
	}
	w.due.Set(n.Name, w.silentAt(s))
}

// compareNotes takes in the first lease of a node that was seen without one, as
// if it had been there when the node was seen: who takes over sees nodes and
// leases in any order, and old leases are no signs of life.
func (w *Watch) compareNotes(name string, s *signs, now time.Time) {
	s.last = max(s.last, notAfter(now, s.lease))
	if s.silent && s.ready.status != model.Unknown && w.silentAt(s).After(now) {
		s.silent = false
		w.due.Set(name, w.silentAt(s))
	}
}

// heard is a sign of life.
func (w *Watch) heard(name string, s *signs, at time.Time) {
	s.last = max(s.last, at.UnixNano())
	if s.silent {
		s.silent = false
		w.due.Set(name, w.silentAt(s))
	}
}

// hasten moves a node forward whose grace became shorter: the one direction in
// which a moment is put right at once.
func (w *Watch) hasten(name string, s *signs) {
	if s.silent {
		return
	}
	if queued, ok := w.due.At(name); ok && w.silentAt(s).Before(queued) {
		w.due.Set(name, w.silentAt(s))
	}
}

// readyOf is the node's condition Ready. A node that says itself that it does not
// know how it fares is one that reports a fault.
func readyOf(n *model.Node) ready {
	c := &n.Conditions[model.Ready]
	status := c.Status
	if status == model.Unknown && !c.Unheard() {
		status = model.False
	}
	return ready{status, c.Heartbeat.UnixNano(), c.Transition.UnixNano()}
}

// writtenByNode reports whether it is the node that wrote r where there was w.
// The controller writes Unknown alone: over another status it keeps the
// heartbeat, and where there was no condition it invents one.
func (r ready) writtenByNode(w ready) bool {
	switch {
	case r.status == model.Absent:
		return false
	case r.status == model.Unknown:
		return w.status != model.Absent && r.heartbeat != w.heartbeat
	}
	return r != w
}

// notAfter is the moment that somebody wrote down, or now where that is earlier:
// nobody was heard in the future. A time that was not written is in the eighteenth
// century, by [time.Time.UnixNano], and so never the latest.
func notAfter(now time.Time, written int64) int64 { return min(written, now.UnixNano()) }
