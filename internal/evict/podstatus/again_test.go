package podstatus

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// takenBack returns a world with a reported and killed pod, after which a kubelet has
// overwritten the status with its previous knowledge.
func takenBack(t *testing.T, o Options, container corev1.ContainerStatus) (*world, Notice) {
	w, n := newWorld(t, o), notice("p")
	n.Decided = time.Now()
	w.put(running(n))
	w.Enqueue(n)
	if err := w.Evicted(context.Background(), n); err != nil {
		t.Fatal(err)
	}
	w.Commit(n.UID)
	w.kubeletSays(container)
	return w, n
}

// kubeletSays is a kubelet that does not know of the pod's end.
func (w *world) kubeletSays(container corev1.ContainerStatus) {
	w.with(func() {
		back := w.pods["shop/p"].DeepCopy() // the condition remains
		back.Status.Phase, back.Status.Reason, back.Status.Message = corev1.PodRunning, "", ""
		back.Status.ContainerStatuses = []corev1.ContainerStatus{container}
		w.pods["shop/p"] = back
	})
}

// seen returns the pod as the node's informer has it.
func (w *world) seen(uid string) (*corev1.Pod, bool) {
	pod := w.pod("p")
	return pod, pod != nil && string(pod.UID) == uid
}

func TestAStatusThatAKubeletWritesOverIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := takenBack(t, Options{Running: node()}, runs("id-p", time.Now().Add(-time.Hour)))
		defer w.run(nil)()
		wait(t, time.Second)
		w.Look(w.seen)
		wait(t, time.Second)
		if pod := w.pod("p"); pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != ReasonEvicted || pod.Status.Message != n.Message {
			t.Errorf("%+v", pod.Status)
		}
		w.Look(w.seen) // the status is correct
		wait(t, time.Minute)
		if statuses, events := w.counts(); statuses != 2 || events != 1 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
		}
	})
}

func TestAStatusIsNotToldAgain(t *testing.T) {
	for about, tc := range map[string]struct {
		runs      []string
		container string
		after     time.Duration
	}{
		"of a pod that runs again":                     {[]string{"id-new"}, "id-p", time.Second},
		"of a pod whose kubelet says that it runs":     {nil, "id-new", time.Second},
		"when the kubelet has long had time to see it": {nil, "id-p", confirmTime + time.Second},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := takenBack(t, Options{Running: node(tc.runs...)}, runs(tc.container, time.Now()))
				defer w.run(nil)()
				wait(t, tc.after)
				w.Look(w.seen)
				wait(t, time.Minute)
				if statuses, events := w.counts(); statuses != 1 || events != 1 || w.Debts() != 0 {
					t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
				}
			})
		})
	}
}

// A pod that was reported as evicted and could not be killed continues to run. A kubelet is right
// to restore its status, however late the answer to the report is.
func TestAPodThatWasSparedIsNotToldAgain(t *testing.T) {
	for about, late := range map[string]time.Duration{"the answer came before": 0, "the answer is late": time.Second} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newWorld(t, Options{Running: node("id-p")}), notice("p")
				n.Decided = time.Now()
				w.put(running(n))
				defer w.run(nil)()
				w.broken(answeredAfter(late))
				w.Enqueue(n)
				told := make(chan error, 1)
				go func() { told <- w.Evicted(t.Context(), n) }()
				wait(t, late/2)
				w.Cancel(n.UID)
				if err := <-told; err != nil {
					t.Fatal(err)
				}
				w.broken(nil)
				for range 10 {
					w.kubeletSays(runs("id-p", time.Now().Add(-time.Hour)))
					w.Look(w.seen)
					wait(t, time.Second)
				}
				statuses, events := w.counts()
				if phase := w.pod("p").Status.Phase; statuses != 1 || events != 1 || w.Debts() != 0 || phase != corev1.PodRunning {
					t.Errorf("%d statuses, %d events, %d debts, the pod is %s", statuses, events, w.Debts(), phase)
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
