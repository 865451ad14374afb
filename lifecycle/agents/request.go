package agents

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// request is an agent's request for the soft eviction of one pod.
type request struct {
	pod      *model.Pod // nil: withdrawn while the task was executing
	until    time.Time  // expiry
	inFlight bool       // a task is executing
	fails    int        // consecutive failures of the task
}

// maxRequestAge is the maximum age of a request.
const maxRequestAge = time.Hour

// Pod updates a pod bound to a node, with or without a request.
func (w *Watch) Pod(p *model.Pod, now time.Time) {
	if p.Requested == nil || p.Finished || p.Deleting {
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
	if was != nil && was.Requested.Since.Equal(p.Requested.Since) {
		return // the same request, however often the pod changes
	}
	r.fails, r.until = 0, p.Requested.Since.Add(maxRequestAge)
	if p.Requested.Since.After(now) { // the node's clock is wrong
		r.until = now.Add(maxRequestAge)
	}
	if !r.inFlight {
		w.evictions.Set(p.UID, now)
	}
}

// Gone records the end of a pod.
func (w *Watch) Gone(uid string) {
	r := w.requests[uid]
	if r == nil || r.pod == nil {
		return
	}
	w.evictions.Remove(uid)
	w.unpark(r.pod)
	r.pod = nil
	if !r.inFlight {
		delete(w.requests, uid)
	}
}

// park sets a pod aside until its agent is alive again.
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

// wake resumes the parked pods of a node after a sign of life of its agent.
func (w *Watch) wake(name string, now time.Time) {
	for uid := range w.parked[name] {
		w.evictions.Set(uid, now)
	}
	delete(w.parked, name)
}
