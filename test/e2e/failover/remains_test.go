package failover

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// remnants checks the objects of ended pods. That of a pod evicted by its node's agent is
// deleted after its TTL, under any leader. That of a pod that merely failed stays, and so does
// one with its mark removed.
func remnants(s *env) {
	const ttl = 10 * time.Second
	s.controllers(2, "--evicted-pod-ttl="+ttl.String())
	n := s.node("needy")
	hog, failed, unmarked := s.run(n, hollow.Pod("hog", 0)), s.run(n, hollow.Pod("failed", 0)), s.run(n, hollow.Pod("unmarked", 0))
	s.fail(failed)
	due := s.fail(unmarked, corev1.ConditionTrue).Add(ttl)
	since := s.fail(hog, corev1.ConditionTrue)
	first := s.leader()
	s.must(first.Kill())
	s.until("the other one leads", func() bool { l := s.leader(); return l != nil && l != first })
	s.fail(unmarked, corev1.ConditionFalse)
	kept := []*corev1.Pod{failed}
	if time.Now().Before(due) { // its mark was removed in time
		kept = append(kept, unmarked)
	}

	s.until("it is deleted and removed", func() bool { return len(s.deleted(hog)) > 0 && s.rec.Pod(hog.UID).Gone })
	w := s.deleted(hog)[0]
	s.notBefore("it is deleted", w.At, since.Add(ttl))
	var sent metav1.DeleteOptions
	if err := json.Unmarshal(w.Sent, &sent); err != nil || sent.Preconditions == nil || sent.Preconditions.UID == nil ||
		*sent.Preconditions.UID != hog.UID || sent.Preconditions.ResourceVersion == nil {
		s.Errorf("it was deleted with %s, %v: want a precondition", w.Sent, err)
	}
	pass(s.Context(), slack)
	for _, pod := range kept {
		if s.rec.Pod(pod.UID).Leaving() || len(s.deleted(pod)) > 0 {
			s.Errorf("pod %s was deleted", pod.Name)
		}
	}
	if n := len(s.writes(func(w *recorder.Write) bool { return w.Verb == "delete" && w.Resource == "pods" && w.Done() })); n != 1 && len(kept) == 2 {
		s.Errorf("%d pods were deleted", n)
	}
}

// fail ends a pod as after an eviction, optionally with its agent's mark. It returns the time
// of the mark.
func (s *env) fail(pod *corev1.Pod, mark ...corev1.ConditionStatus) (since time.Time) {
	s.Helper()
	now := metav1.Now().Rfc3339Copy()
	status := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	for _, m := range mark {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: "plimsoll.dev/Evicted", Status: m, LastTransitionTime: now})
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	s.must(err)
	_, err = s.api.CoreV1().Pods(pod.Namespace).Patch(s.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
	return now.Time
}
