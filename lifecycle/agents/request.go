package agents

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A request is an agent's for the soft eviction of one pod.
type request struct {
	pod   *model.Pod // nil: withdrawn while the task was out
	until time.Time  // too old after that
	out   bool       // a task is
	fails int        // of it in succession
}

// oldest is how long a request counts after it was made.
const oldest = time.Hour

// Pod takes in a pod that is bound to a node, whether it is asked for or not.
func (w *Watch) Pod(p *model.Pod, now time.Time) {
	if p.Asked == nil || p.Finished || p.Deleting {
		w.Gone(p.UID)
		return
	}
	r := w.requests[p.UID]
	if r == nil {
		r = &request{}
		w.requests[p.UID] = r
	}
	was := r.pod
	r.pod = p
	if was != nil && was.Asked.Since.Equal(p.Asked.Since) {
		return // the same request, however often the pod changes
	}
	r.fails, r.until = 0, p.Asked.Since.Add(oldest)
	if p.Asked.Since.After(now) { // the node's clock is wrong
		r.until = now.Add(oldest)
	}
	if !r.out {
		w.asking.Set(p.UID, now)
	}
}

// Gone takes in that a pod does not exist any more.
func (w *Watch) Gone(uid string) {
	r := w.requests[uid]
	if r == nil || r.pod == nil {
		return
	}
	w.asking.Remove(uid)
	w.unpark(r.pod)
	r.pod = nil
	if !r.out {
		delete(w.requests, uid)
	}
}

// park puts a pod aside until its agent is heard again.
func (w *Watch) park(p *model.Pod) {
	if w.parked[p.Node] == nil {
		w.parked[p.Node] = map[string]struct{}{}
	}
	w.parked[p.Node][p.UID] = struct{}{}
}

func (w *Watch) unpark(p *model.Pod) {
	aside := w.parked[p.Node]
	if delete(aside, p.UID); len(aside) == 0 {
		delete(w.parked, p.Node)
	}
}

// wake brings back the pods of a node whose agent is heard again.
func (w *Watch) wake(name string, now time.Time) {
	for uid := range w.parked[name] {
		w.asking.Set(uid, now)
	}
	delete(w.parked, name)
}
