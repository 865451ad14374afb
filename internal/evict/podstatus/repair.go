package podstatus

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The pause between two repairs of one pod doubles within these bounds: a kubelet without the
// reason repeats its status every 10 s. Only an admission policy ends that
// (docs/internals/decisions/017).
const (
	minRepair = time.Second
	maxRepair = time.Hour
)

// repair is the state of the repairs of one pod.
type repair struct {
	version string // the pod's resource version of the latest repair
	pause   time.Duration
	next    time.Time // the earliest time of the next repair
}

// Repair enqueues a repair of each pod of the node that an agent evicted, and that has lost reason
// and message to a kubelet's status. unexplained contains all pods of the node, as the API server
// has them, that have failed without reason or message. there reports whether the node has a pod.
// Call Repair whenever pods have changed. It does not block, and makes one repair for one change of
// a pod.
func (t *Reporter) Repair(unexplained iter.Seq[*corev1.Pod], there func(uid string) bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for pod := range unexplained {
		killed := t.killedIn(string(pod.UID))
		if n, is := lostReason(pod, killed, now); is {
			t.repair(n, pod.ResourceVersion, now)
		}
	}
	for uid := range t.repairs {
		if !there(uid) {
			delete(t.repairs, uid)
		}
	}
	for uid := range t.alsoKilled {
		if !there(uid) {
			delete(t.alsoKilled, uid)
		}
	}
}

// maxAlsoKilled bounds the containers of one pod, and the pods, that AlsoKilled stores.
const maxAlsoKilled = 100

// AlsoKilled records that containers which started in an evicted pod were killed for that eviction. Without that,
// the pod would count as one that has failed by itself, and would not be repaired.
func (t *Reporter) AlsoKilled(uid string, containers []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.alsoKilled[uid]
	if known == nil && len(t.alsoKilled) >= maxAlsoKilled {
		clear(t.alsoKilled)
	}
	known = append(known, containers...)
	t.alsoKilled[uid] = known[max(0, len(known)-maxAlsoKilled):]
}

// killedIn returns the known containers that were killed in a pod. The lock is held.
func (t *Reporter) killedIn(uid string) []string {
	return slices.Concat(t.unconfirmed[uid].notice.Killed, t.alsoKilled[uid])
}

// HasEnded reads a pod and reports whether the API server has it as Failed or Succeeded. Another pod of that name, and
// none, count as not ended. Returns the error of the request.
func (t *Reporter) HasEnded(ctx context.Context, namespace, name, uid string) (bool, error) {
	pod, err := read(ctx, t.client, &Notice{Namespace: namespace, Name: name})
	switch {
	case answerTo(err) == gone:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read pod %s/%s: %w", namespace, name, err)
	}
	return string(pod.UID) == uid && (pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded), nil
}

// repair enqueues the repair of one pod, unless one is enqueued for that version. The lock is held.
func (t *Reporter) repair(n Notice, version string, now time.Time) {
	r := t.repairs[n.UID]
	if r.version == version || len(t.queue.entries) >= maxPending {
		return
	}
	if e := t.queue.latest(n.UID); e != nil && e.pending.Status {
		return // a pending status reads the pod as it is then
	}
	due := now
	if r.next.After(now) {
		due = r.next
	}
	r.version, r.pause = version, min(max(2*r.pause, minRepair), maxRepair)
	r.next = due.Add(r.pause)
	t.repairs[n.UID] = r
	if c, known := t.unconfirmed[n.UID]; known {
		n = c.notice
		n.Killed = t.killedIn(n.UID)
	}
	t.queue.entries = append(t.queue.entries, &entry{pending: PendingStatus{Notice: n, Ended: true, Status: true, Again: true, Repair: true}, due: due})
	t.changed()
}

// lostReason reports whether a pod was evicted by an agent and has lost its reason or message, and
// returns a notice with the contents of its condition. A pod in which a container has started since
// is excluded: it has failed by itself. The killed containers are older, regardless of their start;
// killed is empty if they are not known.
func lostReason(pod *corev1.Pod, killed []string, now time.Time) (n Notice, lost bool) {
	s := &pod.Status
	if s.Phase != corev1.PodFailed || s.Reason != "" && (s.Reason != ReasonEvicted || s.Message != "") {
		return n, false
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type != Evicted || c.Status != corev1.ConditionTrue || c.Message == "" || c.LastTransitionTime.IsZero() {
			continue
		}
		n = Notice{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Message: c.Message, Decided: c.LastTransitionTime.Time, Killed: killed}
		return n, !(&sight{pending: &PendingStatus{Notice: n, Repair: true}, pod: pod, asked: true, at: now}).startedSince()
	}
	return n, false
}
