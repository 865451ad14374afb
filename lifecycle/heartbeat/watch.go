package heartbeat

import (
	"math"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Policy has the grace periods of silence. None is negative, and Renewal is above zero.
type Policy struct {
	Grace        time.Duration // after the last sign of life of a node with a condition Ready
	StartupGrace time.Duration // the same without a condition Ready
	Renewal      time.Duration // renewal interval of a live node
}

// Watch stores the signs of life of all nodes. The argument now must not decrease between calls.
// A lease may be passed later than its observation.
type Watch struct {
	policy    Policy
	signs     map[string]*signs
	due       *timerqueue.Queue[string] // at silentAt or before, for nodes that are not silent; silent ones until reported
	notBefore int64                     // no node becomes silent before
}

// signs is the state of one node name. Times are ns since 1970, as in the queue.
type signs struct {
	seen  bool // the node itself was observed, not only its lease
	uid   string
	ready ready

	leased bool
	lease  int64 // last observed renewTime; compared but not interpreted while the node is watched

	last      int64 // last sign of life
	notBefore int64 // not silent before: end of the wait after first observation
	silent    bool
}

// ready is the node's condition Ready at the last observation.
type ready struct {
	status                model.Status
	heartbeat, transition int64
}

// New returns a watch without observations.
func New(p Policy) *Watch {
	return &Watch{policy: p, signs: map[string]*signs{}, due: timerqueue.New[string]()}
}

// NotBefore delays the silence of all nodes that are not silent yet until t. During an outage of
// the watch, signs of life may have been missed. Silence known to the API at first observation is
// exempt. A t earlier than in a previous call has no effect.
func (w *Watch) NotBefore(t time.Time) { w.notBefore = max(w.notBefore, t.UnixNano()) }

// Last returns the node's last sign of life. For an unknown node ok is false.
func (w *Watch) Last(name string) (last time.Time, ok bool) {
	s := w.signs[name]
	if s == nil || !s.seen {
		return time.Time{}, false
	}
	return time.Unix(0, s.last), true
}

// IsExpired reports whether the node is silent: reported by [Watch.Expired], or about to be because
// the API has it as silent.
func (w *Watch) IsExpired(name string) bool {
	s := w.signs[name]
	return s != nil && s.silent
}

// ahead is how far in advance times in the queue are corrected. A caller that waits for
// [Watch.Next] then has one needless wakeup per ahead, instead of one per node and grace period.
// It has none if it wakes more often for other reasons.
const ahead = 2 * time.Second

// Expired returns the nodes that became silent since the last call, in the order of names. Each is
// returned once until its next sign of life.
func (w *Watch) Expired(now time.Time) []string {
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
			break // correct, and the earliest of all
		}
		w.due.Set(name, at)
	}
	slices.Sort(silent)
	return silent
}

// Next returns the time when Expired may return a node. It may be too early, because of later
// signs of life, but is never too late. If there is no node to wait for, ok is false.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, at, ok = w.due.Next()
	return at, ok
}

func (w *Watch) silentAt(s *signs) time.Time {
	return time.Unix(0, max(w.graceEnd(s), s.notBefore, w.notBefore))
}

// graceEnd returns the end of the grace period after the last sign of life.
func (w *Watch) graceEnd(s *signs) int64 {
	grace := w.policy.Grace
	if s.ready.status == model.Absent {
		grace = w.policy.StartupGrace
	}
	if until := s.last + int64(grace); until >= s.last {
		return until
	}
	return math.MaxInt64 // centuries in the future
}
