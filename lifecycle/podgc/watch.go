package podgc

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Watch stores the evicted pods. The argument now must not decrease between calls. See [New].
type Watch struct {
	kept time.Duration
	pods map[string]*remain // by UID
	due  *timerqueue.Queue[string]
}

// remain is an evicted pod.
type remain struct {
	pod   *model.Pod // nil: the pod is gone or no longer to be deleted, and its result is not known yet
	told  bool       // returned, and not finished
	fails int        // consecutive failures
	from  time.Time  // not returned again before
}

// New returns an empty watch. Pods are kept for the given time after their mark. With 0 they are
// kept forever, and none is ever due.
func New(kept time.Duration) *Watch {
	return &Watch{kept: kept, pods: map[string]*remain{}, due: timerqueue.New[string]()}
}

// Pod updates a pod, evicted or not.
func (w *Watch) Pod(p *model.Pod) {
	if w.kept <= 0 || p.Evicted == nil || p.Deleting {
		w.Gone(p.UID)
		return
	}
	r := w.pods[p.UID]
	if r == nil {
		r = &remain{}
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
	if r.pod = nil; !r.told {
		delete(w.pods, uid)
	}
}

// line sets the time of a pod, unless it was returned and is not finished.
func (w *Watch) line(r *remain) {
	if !r.told {
		w.due.Set(r.pod.UID, later(w.dueAt(r.pod), r.from))
	}
}

// dueAt returns when a pod was kept for long enough. The mark has whole seconds, and a pod may
// have been created in the second of its eviction.
func (w *Watch) dueAt(p *model.Pod) time.Time {
	return later(*p.Evicted, p.Created.Truncate(time.Second)).Add(w.kept)
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
		r.told = true
		pods = append(pods, r.pod)
	}
	return pods
}

// Wanted reports whether a pod is still to be deleted.
func (w *Watch) Wanted(uid string, now time.Time) bool {
	r := w.pods[uid]
	return r != nil && r.pod != nil && !w.dueAt(r.pod).After(now)
}

// Backoffs between two attempts, doubling. Nothing waits for these deletions.
const (
	shortest = 10 * time.Second
	longest  = 10 * time.Minute
)

func patience(fails int) time.Duration {
	if fails == 0 {
		return longest
	}
	return min(shortest<<min(fails-1, 10), longest)
}

// Finished records the result of a returned pod; nil if it was deleted or did not exist.
func (w *Watch) Finished(uid string, err error, now time.Time) {
	r := w.pods[uid]
	if r == nil || !r.told {
		return
	}
	if r.told = false; r.pod == nil {
		delete(w.pods, uid)
		return
	}
	if r.fails++; err == nil {
		r.fails = 0
	}
	r.from = now.Add(patience(r.fails))
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
