package podgc

import (
	"time"

	"plimsoll.dev/plimsoll/internal/timerqueue"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Watch keeps what is left of evicted pods. Of its calls' now none is earlier
// than the one before. See [New].
type Watch struct {
	kept time.Duration
	pods map[string]*remain // by UID
	due  *timerqueue.Queue[string]
}

// A remain is an evicted pod.
type remain struct {
	pod   *model.Pod // nil: it is gone, or may stay, and what came of it is not known yet
	told  bool       // and not finished
	fails int        // in succession
	from  time.Time  // not told again before
}

// New makes a watch that has seen nothing. Pods are kept so long after they were
// marked; 0: for ever, and none of them is ever due.
func New(kept time.Duration) *Watch {
	return &Watch{kept: kept, pods: map[string]*remain{}, due: timerqueue.New[string]()}
}

// Pod takes in a pod, whether it was evicted or not.
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

// Gone takes in that a pod does not exist any more.
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

// line gives a pod its moment, unless it was told.
func (w *Watch) line(r *remain) {
	if !r.told {
		w.due.Set(r.pod.UID, later(w.dueAt(r.pod), r.from))
	}
}

// dueAt is when a pod has been kept for long enough. The mark has whole seconds, and a
// pod may have been created in the second in which it was evicted.
func (w *Watch) dueAt(p *model.Pod) time.Time {
	return later(*p.Evicted, p.Created.Truncate(time.Second)).Add(w.kept)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Due tells the pods that are to be deleted now, in the order of their moments,
// then of UIDs. Each is to be finished once.
func (w *Watch) Due(now time.Time) (pods []*model.Pod) {
	for uid, ok := w.due.Pop(now); ok; uid, ok = w.due.Pop(now) {
		r := w.pods[uid]
		r.told = true
		pods = append(pods, r.pod)
	}
	return pods
}

// Wanted reports whether a pod is to be deleted still.
func (w *Watch) Wanted(uid string, now time.Time) bool {
	r := w.pods[uid]
	return r != nil && r.pod != nil && !w.dueAt(r.pod).After(now)
}

// Between two attempts, doubling. Nobody waits for this.
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

// Finished takes in what came of a pod that was told; nil: it was deleted, or was
// gone.
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

// Next is when Due could tell somebody, if nothing is taken in until then. ok is
// false when there is nobody to wait for.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, at, ok = w.due.Next()
	return at, ok
}

// Len is how many evicted pods there are.
func (w *Watch) Len() int { return len(w.pods) }
