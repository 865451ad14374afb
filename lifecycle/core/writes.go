package core

import (
	"errors"
	"time"
)

// A write is what is under way or is to be tried again. The zero value is neither.
type write struct {
	id    uint64    // of the action under way; 0: none
	fails int       // in succession
	first time.Time // when the first of them began, and still when the next one is under way
	from  time.Time // not again before; zero: at once

	spends    bool // a token of the zone, if it succeeds
	execution bool // it changes taints that drive pods off
	// fresh is the key of the NoExecute taint that it adds and that replaces none.
	fresh string
}

// Between a write that failed and the next attempt: doubling.
const (
	shortest = 100 * time.Millisecond
	longest  = 30 * time.Second
)

// settled is how long after a delete that succeeded a pod that is still there,
// and not ending, is deleted again.
const settled = 30 * time.Second

func (w *write) underWay() bool { return w.id != 0 }

// may reports whether a write may begin.
func (w *write) may(now time.Time) bool { return w.id == 0 && !w.from.After(now) }

// end takes in what came of a write.
func (w *write) end(err error, now time.Time) {
	fails, first := w.fails+1, w.first
	*w = write{}
	if err != nil && !errors.Is(err, ErrOvertaken) {
		w.fails, w.first, w.from = fails, first, now.Add(min(shortest<<min(fails-1, 20), longest))
	}
}

// start begins a write and gives it its number.
func (f *Fleet) start(w *write) uint64 {
	f.lastID++
	w.id = f.lastID
	if w.fails == 0 {
		w.first = f.now
	}
	return w.id
}

// Finished takes in what came of an action that writes, once; err is nil if it
// was carried out, [ErrOvertaken] if it was not tried, else why it failed. Success
// is believed until the object itself says otherwise; what failed is decided
// anew after a while. An object that is gone is success. A ReadLease that could
// not be tried may be finished with an error in place of an answer.
func (f *Fleet) Finished(a *Action, err error, now time.Time) {
	f.now = now
	switch a.Kind {
	case Silence, Taint:
		f.finishNode(a, err)
	case MarkNotReady, Evict:
		f.finishPod(a, err)
	case SoftEvict, ClearAgent:
		f.finishTask(a, err)
	case ClearPod:
		f.remains.Finished(a.Pod.UID, err, now)
	case ReadLease:
		if err != nil {
			f.LeaseRead(a.Node, time.Time{}, err, now)
		}
	}
}

func (f *Fleet) finishNode(a *Action, err error) {
	h := f.hosts[a.Node]
	if h == nil {
		f.refund(a, err)
		return
	}
	w := &h.spec
	if a.Kind == Silence {
		w = &h.status
	}
	if w.id != a.id {
		if !w.spends { // of a node that was deleted since; whoever took its name may have a token by now
			f.refund(a, err)
		}
		return
	}
	if w.spends {
		f.refund(a, err)
	}
	w.end(err, f.now)
	if err == nil {
		h.believe(a, f.now)
	}
	f.look(h)
}

// refund gives the token back that an action did not use.
func (f *Fleet) refund(a *Action, err error) {
	if err != nil && a.spends {
		f.zones.GiveBack(a.Node, f.now)
	}
}

func (f *Fleet) finishPod(a *Action, err error) {
	uid := a.Pod.UID
	hands, p := f.hands[uid], f.pods[uid]
	if hands == nil || p == nil {
		return
	}
	w := &hands.evict
	if a.Kind == MarkNotReady {
		w = &hands.mark
	}
	if w.id != a.id {
		return
	}
	w.end(err, f.now)
	switch {
	case a.Kind == MarkNotReady:
		p.marked = err == nil
	case err == nil:
		hands.deleted, p.timed = true, false
		w.from = f.now.Add(settled)
	}
	f.afterwards(uid, hands)
	f.lookPod(p)
}

// hands are the writes to a pod.
type hands struct {
	mark, evict write
	deleted     bool // an Evict succeeded
}

// handsOn are the writes to the pod, made if there are none.
func (f *Fleet) handsOn(uid string) *hands {
	w := f.hands[uid]
	if w == nil {
		w = &hands{}
		f.hands[uid] = w
	}
	return w
}

// afterwards forgets writes that are over, and wakes for those to be repeated.
func (f *Fleet) afterwards(uid string, w *hands) {
	if *w == (hands{}) {
		delete(f.hands, uid)
		return
	}
	if at := earliest(w.mark.from, w.evict.from); !at.IsZero() {
		f.again.Set(uid, at)
	}
}
