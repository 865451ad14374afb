package agents

import (
	"time"

	"plimsoll.dev/plimsoll/internal/backoff"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Task is one of two kinds of work. Exactly one field is set.
type Task struct {
	// EvictPod is a pod to evict through policy/v1, which disruption budgets may refuse, with the
	// grace period requested by its agent; or nil.
	EvictPod *model.Pod
	// ClearNode is the name of a node without an active agent, where the conditions and taints
	// plimsoll.dev/… are to be removed.
	ClearNode string
}

// Act returns the tasks that are due: evictions, then cleanups, each in the order of their times,
// then of UID or name. Each task must be passed to [Watch.Finished] once.
func (w *Watch) Act(now time.Time) []Task {
	var tasks []Task
	for {
		uid, ok := w.evictions.Pop(now)
		if !ok {
			break
		}
		if r := w.requests[uid]; w.mayEvict(r, now) {
			r.inFlight = true
			tasks = append(tasks, Task{EvictPod: r.pod})
		}
	}
	for {
		name, ok := w.cleanups.Pop(now)
		if !ok {
			break
		}
		n := w.nodes[name]
		if at := w.clearAt(n); at.After(now) {
			w.cleanups.Set(name, at) // its agent renewed its lease in the meantime
			continue
		}
		n.inFlight = true
		tasks = append(tasks, Task{ClearNode: name})
	}
	return tasks
}

// mayEvict decides on a due request, and parks requests that have to wait.
func (w *Watch) mayEvict(r *request, now time.Time) bool {
	switch {
	case now.After(r.until):
		return false // it stays stored, so that a repeated request is not taken for a new one
	case !w.Alive(r.pod.Node, now):
		w.park(r.pod)
		return false
	}
	return true
}

// Backoffs between a failed task and the next attempt. A successful task is repeated after the
// maximum, if it has had no effect by then.
var (
	evictionBackoff = backoff.Bounds{Min: 10 * time.Second, Max: 2 * time.Minute}
	cleanupBackoff  = backoff.Bounds{Min: time.Second, Max: time.Minute}
)

// Finished records the result of a task. The error is that of the API, or of a disruption budget
// that refused; nil if the task is done or there was nothing left to do.
func (w *Watch) Finished(t Task, err error, now time.Time) {
	if t.EvictPod != nil {
		w.evicted(t.EvictPod.UID, err, now)
		return
	}
	w.cleared(t.ClearNode, err, now)
}

func (w *Watch) evicted(uid string, err error, now time.Time) {
	r := w.requests[uid]
	if r == nil {
		return
	}
	r.inFlight, r.fails = false, count(r.fails, err)
	if r.pod == nil {
		delete(w.requests, uid)
		return
	}
	w.evictions.Set(uid, now.Add(evictionBackoff.After(r.fails)))
}

func (w *Watch) cleared(name string, err error, now time.Time) {
	n := w.nodes[name]
	if n == nil {
		return
	}
	n.inFlight, n.fails = false, count(n.fails, err)
	if !n.leftovers {
		w.drop(name, n)
		return
	}
	w.cleanups.Set(name, now.Add(cleanupBackoff.After(n.fails)))
}

// count returns the number of consecutive failures with this result.
func count(fails int, err error) int {
	if err == nil {
		return 0
	}
	return fails + 1
}

// Next returns the time when Act may have a task, without further input. It may be too early, but
// is never too late. If there is nothing to wait for, ok is false.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, evictAt, requested := w.evictions.Next()
	_, cleanAt, cleanup := w.cleanups.Next()
	if requested && (!cleanup || evictAt.Before(cleanAt)) {
		return evictAt, true
	}
	return cleanAt, cleanup
}
