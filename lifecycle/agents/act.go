package agents

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Task is one of two things.
type Task struct {
	// EvictPod is to be evicted (policy/v1, which disruption budgets may refuse) with
	// the grace that its agent asked for; nil: the other.
	EvictPod *model.Pod
	// ClearNode is the name of a node whose conditions and taints plimsoll.dev/… are
	// to go, because nobody stands for them any more.
	ClearNode string
}

// Act tells what is to be done now: evictions, then clearances, each in the order
// in which they came due, then of UID or name. Each task is to be finished once.
func (w *Watch) Act(now time.Time) []Task {
	var tasks []Task
	for {
		uid, ok := w.asking.Pop(now)
		if !ok {
			break
		}
		if r := w.requests[uid]; w.mayEvict(r, now) {
			r.out = true
			tasks = append(tasks, Task{EvictPod: r.pod})
		}
	}
	for {
		name, ok := w.clearing.Pop(now)
		if !ok {
			break
		}
		n := w.nodes[name]
		if at := w.clearAt(n); at.After(now) {
			w.clearing.Set(name, at) // its agent was heard meanwhile
			continue
		}
		n.clearing = true
		tasks = append(tasks, Task{ClearNode: name})
	}
	return tasks
}

// mayEvict decides on a request that is due, and puts aside what has to wait.
func (w *Watch) mayEvict(r *request, now time.Time) bool {
	switch {
	case now.After(r.until):
		return false // it stays known, so that the same is not taken for a new one
	case !w.Alive(r.pod.Node, now):
		w.park(r.pod)
		return false
	}
	return true
}

// Between a task that failed and the next try. What succeeded is tried again
// after the longest, if what was asked for did not happen by then.
const (
	shortestEviction, longestEviction   = 10 * time.Second, 2 * time.Minute
	shortestClearance, longestClearance = time.Second, time.Minute
)

func patience(shortest, longest time.Duration, fails int) time.Duration {
	if fails == 0 {
		return longest
	}
	return min(shortest<<min(fails-1, 10), longest)
}

// Finished takes in what a task came to: err is that of the API, or of the
// disruption budget that refused; nil: done, or nothing was left to do.
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
	r.out, r.fails = false, count(r.fails, err)
	if r.pod == nil {
		delete(w.requests, uid)
		return
	}
	w.asking.Set(uid, now.Add(patience(shortestEviction, longestEviction, r.fails)))
}

func (w *Watch) cleared(name string, err error, now time.Time) {
	n := w.nodes[name]
	if n == nil {
		return
	}
	n.clearing, n.fails = false, count(n.fails, err)
	if !n.littered {
		w.drop(name, n)
		return
	}
	w.clearing.Set(name, now.Add(patience(shortestClearance, longestClearance, n.fails)))
}

// count is how many fails in succession there are with this result.
func count(fails int, err error) int {
	if err == nil {
		return 0
	}
	return fails + 1
}

// Next is when Act could have a task, if nothing is taken in until then: perhaps
// too early, never too late. ok is false when there is nothing to wait for.
func (w *Watch) Next() (at time.Time, ok bool) {
	_, evict, asked := w.asking.Next()
	_, clearance, littered := w.clearing.Next()
	if asked && (!littered || evict.Before(clearance)) {
		return evict, true
	}
	return clearance, littered
}
