package podstatus

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// overwritten returns a harness with a reported and killed pod. A kubelet has then
// replaced the status by its previous one.
func overwritten(t *testing.T, o Options, container corev1.ContainerStatus) (*harness, Notice) {
	h, n := newHarness(t, o), notice("p")
	n.Decided = time.Now()
	h.put(running(n))
	h.Enqueue(n)
	if err := h.Evicted(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	h.Commit(n.UID)
	h.kubeletWrites(container)
	return h, n
}

// kubeletWrites writes the status of a kubelet that has not detected the pod's end.
func (h *harness) kubeletWrites(container corev1.ContainerStatus) {
	h.with(func() {
		back := h.pods["shop/p"].DeepCopy() // the condition remains
		back.Status.Phase, back.Status.Reason, back.Status.Message = corev1.PodRunning, "", ""
		back.Status.ContainerStatuses = []corev1.ContainerStatus{container}
		h.pods["shop/p"] = back
	})
}

// seen returns the pod as the node's informer has it.
func (h *harness) seen(uid string) (*corev1.Pod, bool) {
	pod := h.pod("p")
	return pod, pod != nil && string(pod.UID) == uid
}

func TestLook_RepeatsOverwrittenStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := overwritten(t, Options{Running: node()}, runs("id-p", time.Now().Add(-time.Hour)))
		defer h.run(nil)()
		wait(t, time.Second)
		h.Check(h.seen)
		wait(t, time.Second)
		if pod := h.pod("p"); pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != ReasonEvicted || pod.Status.Message != n.Message {
			t.Errorf("got status %+v, want Failed with reason and message", pod.Status)
		}
		h.Check(h.seen) // the status is correct
		wait(t, time.Minute)
		if statuses, events := h.counts(); statuses != 2 || events != 1 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
		}
	})
}

func TestLook_KeepsStatusIfNotDue(t *testing.T) {
	for name, tc := range map[string]struct {
		runs      []string
		container string
		after     time.Duration
	}{
		"pod restarted":                {[]string{"id-new"}, "id-p", time.Second},
		"pod restarted, by its status": {nil, "id-new", time.Second},
		"after confirmTime":            {nil, "id-p", confirmTime + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := overwritten(t, Options{Running: node(tc.runs...)}, runs(tc.container, time.Now()))
				defer h.run(nil)()
				wait(t, tc.after)
				h.Check(h.seen)
				wait(t, time.Minute)
				if statuses, events := h.counts(); statuses != 1 || events != 1 || h.PendingCount() != 0 {
					t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
				}
			})
		})
	}
}

// A pod that was reported as evicted and could not be killed continues to run. A kubelet is right
// to restore its status, however late the answer to the report is.
func TestLook_IgnoresCancelledPod(t *testing.T) {
	for name, late := range map[string]time.Duration{"answer before Cancel": 0, "answer after Cancel": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{Running: node("id-p")}), notice("p")
				n.Decided = time.Now()
				h.put(running(n))
				defer h.run(nil)()
				h.broken(answeredAfter(late))
				h.Enqueue(n)
				reported := make(chan error, 1)
				go func() { reported <- h.Evicted(t.Context(), n) }()
				wait(t, late/2)
				h.Cancel(n.UID)
				if err := <-reported; err != nil {
					t.Fatal(err)
				}
				h.broken(nil)
				for range 10 {
					h.kubeletWrites(runs("id-p", time.Now().Add(-time.Hour)))
					h.Check(h.seen)
					wait(t, time.Second)
				}
				statuses, events := h.counts()
				if phase := h.pod("p").Status.Phase; statuses != 1 || events != 1 || h.PendingCount() != 0 || phase != corev1.PodRunning {
					t.Errorf("got %d statuses, %d events, %d pending, phase %s", statuses, events, h.PendingCount(), phase)
				}
			})
		})
	}
}

// answeredAfter serves a request immediately and delays the answer.
func answeredAfter(d time.Duration) fault {
	return func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
		answer := serve()
		<-time.After(d)
		return answer, nil
	}
}
