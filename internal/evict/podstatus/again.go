package podstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// confirmTime is for how long after a status was told a kubelet may still take
// it back: it synchronises what it knew before every 10 s, and learns of a
// container's end within a second.
const confirmTime = 15 * time.Second

// A confirmation is a status that was told and may be taken back.
type confirmation struct {
	notice Notice
	until  time.Time
}

// confirm begins to look after a status that was told; of a pod that was spared a
// kubelet is right to take it back. The lock is held.
func (t *Reporter) confirm(e *entry) {
	if e.spared {
		return
	}
	now := time.Now()
	for uid, c := range t.unconfirmed {
		if now.After(c.until) {
			delete(t.unconfirmed, uid)
		}
	}
	n := e.debt.Notice
	t.unconfirmed[n.UID] = confirmation{n, now.Add(confirmTime)}
}

// Look is to be called whenever pods of the node have changed; get tells a pod
// as the API server has it. Where a kubelet has written over a status that was
// told, with what it knew before the pod's end, it would start the pod again as
// soon as it learns of that end: the status is told again at once, unless a
// container has started already. Look does not wait, and nearly always costs
// next to nothing.
func (t *Reporter) Look(get func(uid string) (*corev1.Pod, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, c := range t.unconfirmed {
		pod, known := get(uid)
		switch {
		case time.Now().After(c.until):
			delete(t.unconfirmed, uid)
		case known && pod.Status.Phase == corev1.PodRunning:
			t.tellAgain(c.notice)
		}
	}
}

// tellAgain owes the status once more. What was seen may be older than what was
// told: whoever pays reads the pod first. The lock is held.
func (t *Reporter) tellAgain(n Notice) {
	e := t.ledger.find(n.identity())
	if e == nil {
		e = &entry{debt: PendingStatus{Notice: n, Ended: true}}
		t.ledger.entries = append(t.ledger.entries, e)
	}
	if e.debt.Status || !e.debt.Ended {
		return // owed anyway, or the kill is not over
	}
	e.debt.Status, e.debt.Again, e.due = true, true, time.Now()
	t.changed()
}
