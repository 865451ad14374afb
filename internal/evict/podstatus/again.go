package podstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// confirmTime is the time after a report within which a kubelet may still overwrite the status. It
// synchronises its previous knowledge every 10 s, and learns of a container's end within a second.
const confirmTime = 15 * time.Second

// confirmation is a reported status that may be overwritten.
type confirmation struct {
	notice Notice
	until  time.Time
}

// confirm starts to observe a reported status. For a pod that was not killed the kubelet is right
// to overwrite it. The lock is held.
func (t *Reporter) confirm(e *entry) {
	if e.cancelled {
		return
	}
	now := time.Now()
	for uid, c := range t.unconfirmed {
		if now.After(c.until) {
			delete(t.unconfirmed, uid)
		}
	}
	n := e.pending.Notice
	t.unconfirmed[n.UID] = confirmation{n, now.Add(confirmTime)}
}

// Check checks recently reported statuses; call it whenever pods of the node have changed. get
// returns a pod as the API server has it. A kubelet that overwrites a reported status with its
// knowledge from before the pod's end would restart the pod as soon as it learns of that end. The
// status is then reported again immediately, unless a container has started already. Check does not
// block, and usually costs next to nothing.
func (t *Reporter) Check(get func(uid string) (*corev1.Pod, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, c := range t.unconfirmed {
		pod, known := get(uid)
		switch {
		case time.Now().After(c.until):
			delete(t.unconfirmed, uid)
		case known && pod.Status.Phase == corev1.PodRunning:
			t.repeatStatus(c.notice)
		}
	}
}

// repeatStatus enqueues the status once more. The observed pod may be older than the report, so the
// pod is read before the status is written. The lock is held.
func (t *Reporter) repeatStatus(n Notice) {
	e := t.queue.find(n.identity())
	if e == nil {
		e = &entry{pending: PendingStatus{Notice: n, Ended: true}}
		t.queue.entries = append(t.queue.entries, e)
	}
	if e.pending.Status || !e.pending.Ended {
		return // pending anyway, or the kill is not over
	}
	e.pending.Status, e.pending.Again, e.due = true, true, time.Now()
	t.changed()
}
