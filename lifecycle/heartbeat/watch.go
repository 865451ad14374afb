package heartbeat

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Policy says how long silence is borne. None is negative, and Renewal is above zero.
type Policy struct {
	Grace        time.Duration // after the last sign of life of a node that has a condition Ready
	StartupGrace time.Duration // the same without one
	Renewal      time.Duration // interval in which a living node shows itself
}

// A Watch keeps the signs of life of all nodes. Of its calls' now none is
// earlier than the one before; a lease may be handed in later than it was seen.
type Watch struct {
	policy Policy
	signs  map[string]*signs
	due    *timerqueue.Queue[string] // at silentAt or before, for nodes that are not silent; silent ones until told
	floor  int64                     // nobody falls silent before
}

// signs are those of one name. Moments are ns since 1970, as in the queue.
type signs struct {
	seen  bool // the node itself, not only its lease
	uid   string
	ready ready

	leased bool
	lease  int64 // the renewTime seen last, compared and not interpreted while the node is watched

	last   int64 // sign of life
	floor  int64 // not silent before: it was seen for the first time
	silent bool
}

// ready is what a node's condition Ready was when it was seen last.
type ready struct {
	status                model.Status
	heartbeat, transition int64
}

// New makes a watch that has seen nothing.
func New(p Policy) *Watch {
	return &Watch{policy: p, signs: map[string]*signs{}, due: timerqueue.New[string]()}
}

// NotBefore promises everybody who is not silent yet that nobody falls silent
// before t: what was not heard during an outage was not necessarily not said.
// Silence that the API knows of at first sight is exempt. An earlier t than one
// promised before changes nothing.
func (w *Watch) NotBefore(t time.Time) { w.floor = max(w.floor, t.UnixNano()) }

// Last is the node's last sign of life; ok is false for a node that was not seen.
func (w *Watch) Last(name string) (last time.Time, ok bool) {
	s := w.signs[name]
	if s == nil || !s.seen {
		return time.Time{}, false
	}
	return time.Unix(0, s.last), true
}

// IsSilent reports whether the node is silent: told as such by [Watch.Silent], or
// about to be because the API says so.
func (w *Watch) IsSilent(name string) bool {
	s := w.signs[name]
	return s != nil && s.silent
}

// ahead is how far in advance moments in the queue are put right, so that who
// waits for [Watch.Next] wakes about once in that time for nothing, not once
// per node and grace, and not at all if something else wakes more often.
const ahead = 2 * time.Second

// Silent tells who fell silent since the last call, in the order of names. Each
// is told once until it was heard again.
func (w *Watch) Silent(now time.Time) []string {
	var silent []string
	for {
		name, queued, ok := w.due.Next()
		if !ok || queued.After(now.Add(ahead)) {
			break
		}
		s := w.signs[name]
		at := w.silentAt(s)
		if s.silent || !at.After(now) {
			s.silent = true
			w.due.Remove(name)
			silent = append(silent, name)
			continue
		}
		if !at.After(queued) {
			break // right, and the earliest of all
		}
		w.due.Set(name, at)
	}
	slices.Sort(silent)
	return silent
}

// Next is when Silent could tell somebody: perhaps too early, because of signs of
// life since, never too late. ok is false when there is nobody to wait for.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, at, ok = w.due.Next()
	return at, ok
}

func (w *Watch) silentAt(s *signs) time.Time {
	grace := w.policy.Grace
	if s.ready.status == model.Absent {
		grace = w.policy.StartupGrace
	}
	if until := s.last + int64(grace); until >= s.last {
		return time.Unix(0, max(until, s.floor, w.floor))
	}
	return time.Unix(0, math.MaxInt64) // centuries away
}
