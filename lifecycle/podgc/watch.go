package podgc

import (
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Watch stores the evicted pods. The argument now must not decrease between calls. See [New].
type Watch struct {
	ttl  time.Duration
	pods map[string]*entry // by UID
	due  *timerqueue.Queue[string]
}

// entry is an evicted pod.
type entry struct {
	pod       *model.Pod // nil: the pod is gone or no longer to be deleted, and its result is not known yet
	returned  bool       // by Due, and not finished yet
	fails     int        // consecutive failures
	notBefore time.Time  // earliest time of the next attempt
}

// New returns an empty watch. A pod is due the given time after its mark. With 0 no pod is ever
// due.
func New(ttl time.Duration) *Watch {
	return &Watch{ttl: ttl, pods: map[string]*entry{}, due: timerqueue.New[string]()}
}

// SetTTL replaces the TTL. All pods must be passed to [Watch.Pod] again: with a TTL of 0 none were stored.
func (w *Watch) SetTTL(ttl time.Duration) { w.ttl = ttl }

// Pod updates a pod, evicted or not.
func (w *Watch) Pod(p *model.Pod) {
	if w.ttl <= 0 || p.Evicted == nil || p.Deleting {
		w.Gone(p.UID)
		return
	}
	r := w.pods[p.UID]
	if r == nil {
		r = &entry{}
		w.pods[p.UID] = r
	}
	r.pod = p
	w.line(r)
}

// Gone records the end of a pod.
func (w *Watch) Gone(uid string) {
	r := w.pods[uid]
	if r == nil {
		return
	}
	w.due.Remove(uid)
	if r.pod = nil; !r.returned {
		delete(w.pods, uid)
	}
}

// line sets the time of a pod, unless it was returned and is not finished.
func (w *Watch) line(r *entry) {
	if !r.returned {
		w.due.Set(r.pod.UID, later(w.dueAt(r.pod), r.notBefore))
	}
}

// dueAt returns when the TTL of a pod ends. The mark has whole seconds, and a pod may
// have been created in the second of its eviction.
func (w *Watch) dueAt(p *model.Pod) time.Time {
	return later(*p.Evicted, p.Created.Truncate(time.Second)).Add(w.ttl)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Due returns the pods to delete now, in the order of their times, then of UIDs. Each must be
// passed to [Watch.Finished] once.
func (w *Watch) Due(now time.Time) (pods []*model.Pod) {
	for uid, ok := w.due.Pop(now); ok; uid, ok = w.due.Pop(now) {
		r := w.pods[uid]
		r.returned = true
		pods = append(pods, r.pod)
	}
	return pods
}

// Wanted reports whether a pod is still to be deleted.
func (w *Watch) Wanted(uid string, now time.Time) bool {
	r := w.pods[uid]
	return r != nil && r.pod != nil && !w.dueAt(r.pod).After(now)
}

// attemptBackoff is the time between two attempts. Nothing waits for these deletions.
var attemptBackoff = backoff.Bounds{Min: 10 * time.Second, Max: 10 * time.Minute}

// Finished records the result of a returned pod; nil if it was deleted or did not exist.
func (w *Watch) Finished(uid string, err error, now time.Time) {
	r := w.pods[uid]
	if r == nil || !r.returned {
		return
	}
	if r.returned = false; r.pod == nil {
		delete(w.pods, uid)
		return
	}
	if r.fails++; err == nil {
		r.fails = 0
	}
	r.notBefore = now.Add(attemptBackoff.After(r.fails))
	w.line(r)
}

// Next returns the time when Due may return a pod, without further input. If there is no pod to
// wait for, ok is false.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, at, ok = w.due.Next()
	return at, ok
}

// Len returns the number of evicted pods.
func (w *Watch) Len() int { return len(w.pods) }
