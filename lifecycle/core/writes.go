package core

import (
	"errors"
	"plimsoll.dev/plimsoll/internal/backoff"
	"time"
)

// write is a write in progress or to be retried. The zero value is neither.
type write struct {
	id        uint64    // of the action under way; 0: none
	fails     int       // successive ones
	first     time.Time // start of the first of them, also while the next one is under way
	notBefore time.Time // start of the next attempt; zero: at once

	spends    bool // a token of the zone, if it succeeds
	noExecute bool // it changes taints that evict pods
	// freshKey is the key of the fresh NoExecute taint that it adds, see [Action.Fresh].
	freshKey string
}

// writeBackoff is the delay after a failed write.
var writeBackoff = backoff.Bounds{Min: 100 * time.Millisecond, Max: 30 * time.Second}

// deleteRetry is the time after a successful delete at which a pod without a deletionTimestamp
// is deleted again.
const deleteRetry = 30 * time.Second

// underWay reports whether the write has started and is not finished.
func (w *write) underWay() bool { return w.id != 0 }

// mayStart reports whether a write may start.
func (w *write) mayStart(now time.Time) bool { return w.id == 0 && !w.notBefore.After(now) }

// finish stores the result of a write.
func (w *write) finish(err error, now time.Time) {
	fails, first := w.fails+1, w.first
	*w = write{}
	if err != nil && !errors.Is(err, ErrObsolete) {
		w.fails, w.first, w.notBefore = fails, first, now.Add(writeBackoff.After(fails))
	}
}

// start begins a write and returns its number.
func (f *Fleet) start(w *write) uint64 {
	f.lastID++
	w.id = f.lastID
	if w.fails == 0 {
		w.first = f.now
	}
	return w.id
}

// Finished handles the result of an action that writes, once. err is nil if it was
// carried out, [ErrObsolete] if it was not tried, else the failure. A success counts
// until the object itself shows something else; a failure is decided anew after a
// delay. A deleted object is a success. A ReadLease that could not be tried may
// be finished with an error in place of an answer.
func (f *Fleet) Finished(a *Action, err error, now time.Time) {
	f.now = now
	switch a.Kind {
	case MarkUnknown, Taint:
		f.finishNode(a, err)
	case MarkNotReady, Evict:
		f.finishPod(a, err)
	case SoftEvict, CleanUpAgent:
		f.finishTask(a, err)
	case DeleteEvictedPod:
		f.evictedPods.Finished(a.Pod.UID, err, now)
	case ReadLease:
		if err != nil {
			f.LeaseRead(a.Node, time.Time{}, err, now)
		}
	}
}

func (f *Fleet) finishNode(a *Action, err error) {
	node := f.nodes[a.Node]
	if node == nil {
		f.refund(a, err)
		return
	}
	w := &node.taintWrite
	if a.Kind == MarkUnknown {
		w = &node.statusWrite
	}
	if w.id != a.id {
		if !w.spends { // of a node that was deleted since; another of its name may have a token by now
			f.refund(a, err)
		}
		return
	}
	if w.spends {
		f.refund(a, err)
	}
	w.finish(err, f.now)
	if err == nil {
		f.addPendingWrite(node, a)
	}
	f.touch(node)
}

// refund puts the token back that an action did not use.
func (f *Fleet) refund(a *Action, err error) {
	if err != nil && a.spends {
		f.zones.GiveBack(a.Node, f.now)
	}
}

func (f *Fleet) finishPod(a *Action, err error) {
	uid := a.Pod.UID
	writes, p := f.podWrites[uid], f.pods[uid]
	if writes == nil || p == nil {
		return
	}
	w := &writes.evict
	if a.Kind == MarkNotReady {
		w = &writes.mark
	}
	if w.id != a.id {
		return
	}
	w.finish(err, f.now)
	switch {
	case a.Kind == MarkNotReady:
		p.marked = err == nil
	case err == nil:
		writes.deleted, p.scheduled = true, false
		w.notBefore = f.now.Add(deleteRetry)
	}
	f.scheduleRetry(uid, writes)
	f.touchPod(p)
}

// The podWrites are the writes to a pod.
type podWrites struct {
	mark, evict write
	deleted     bool // an Evict succeeded
}

// writesOf returns the writes to the pod, and creates them if there are none.
func (f *Fleet) writesOf(uid string) *podWrites {
	w := f.podWrites[uid]
	if w == nil {
		w = &podWrites{}
		f.podWrites[uid] = w
	}
	return w
}

// scheduleRetry drops writes that are over, and sets the timer of those to be repeated.
func (f *Fleet) scheduleRetry(uid string, w *podWrites) {
	if *w == (podWrites{}) {
		delete(f.podWrites, uid)
		return
	}
	if at := earliest(w.mark.notBefore, w.evict.notBefore); !at.IsZero() {
		f.podRetries.Set(uid, at)
	}
}
