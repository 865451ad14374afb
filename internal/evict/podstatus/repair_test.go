package podstatus

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failed returns an evicted pod after a kubelet has overwritten the reason.
func failed(n Notice, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := running(n)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "", ""
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{State: ended("id-p", n.Decided.Add(-time.Hour))}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: Evicted, Status: corev1.ConditionTrue, Reason: "MemoryPressure", Message: n.Message,
		LastTransitionTime: metav1.NewTime(n.Decided.Truncate(time.Second)),
	})
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// podsChanged passes the pods to the Reporter as the node's informer has them.
func (w *world) podsChanged() {
	pod := w.pod("p")
	w.Repair(func(yield func(*corev1.Pod) bool) {
		if pod != nil {
			yield(pod)
		}
	}, func(uid string) bool { return pod != nil && string(pod.UID) == uid })
}

// overwrite is a kubelet that repeats its status.
func (w *world) overwrite(pod *corev1.Pod) { w.with(func() { w.put(pod.DeepCopy()) }) }

// The agent that evicted the pod has ended: its successor has only the condition.
func TestRepair_AfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		w.put(failed(n))
		before := w.pod("p").Status.Conditions
		defer w.run(nil)()
		w.podsChanged()
		wait(t, time.Second)
		got := w.pod("p").Status
		if got.Phase != corev1.PodFailed || got.Reason != ReasonEvicted || got.Message != n.Message || !slices.Equal(got.Conditions, before) {
			t.Errorf("%+v", got)
		}
		w.podsChanged() // the status is correct
		wait(t, time.Hour)
		if statuses, events := w.counts(); statuses != 1 || events != 0 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
		}
	})
}

// Right after the kill the runtime may still report the killed containers as running.
func TestRepair_WhileKilledContainersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := takenBack(t, Options{Running: node("id-p")}, runs("id-p", time.Now().Add(-time.Hour)))
		w.put(failed(n))
		defer w.run(nil)()
		w.podsChanged()
		wait(t, time.Second)
		if got := w.pod("p").Status; got.Reason != ReasonEvicted || got.Message != n.Message {
			t.Errorf("%+v", got)
		}
		if statuses, events := w.counts(); statuses != 2 || events != 1 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
		}
	})
}

func TestRepair_Not(t *testing.T) {
	for about, tc := range map[string]struct {
		runs   []string
		change func(*corev1.Pod)
	}{
		"a pod that runs":                {nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		"a pod with a reason of another": {nil, func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" }},
		"a pod that another evicted":     {nil, func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = ReasonEvicted, "m" }},
		"a pod without the mark":         {nil, func(p *corev1.Pod) { p.Status.Conditions = nil }},
		"a mark that is False":           {nil, func(p *corev1.Pod) { p.Status.Conditions[len(p.Status.Conditions)-1].Status = corev1.ConditionFalse }},
		"a pod that ran again": {nil, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = ended("id-new", time.Now())
		}},
		"a pod that runs again, by the runtime": {[]string{"id-new"}, func(*corev1.Pod) {}},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newWorld(t, Options{Running: node(tc.runs...)}), notice("p")
				n.Decided = time.Now().Add(-time.Hour)
				w.put(failed(n, tc.change))
				defer w.run(nil)()
				for range 3 {
					w.podsChanged()
					wait(t, time.Hour)
				}
				if statuses, events := w.counts(); statuses != 0 || events != 0 || w.Debts() != 0 {
					t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
				}
			})
		})
	}
}

// A kubelet that repeats its status every 10 s costs a dozen repairs a day. The first is immediate.
func TestRepair_BacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		lost := failed(n)
		w.put(lost)
		defer w.run(nil)()
		for range 24 * 360 {
			w.overwrite(lost)
			w.podsChanged()
			wait(t, time.Millisecond)
			w.podsChanged() // no second one for one change
			wait(t, 10*time.Second)
		}
		if statuses, _ := w.counts(); statuses < 12 || statuses > 40 {
			t.Errorf("%d repairs in a day", statuses)
		}
		w.with(func() { delete(w.pods, "shop/p") })
		w.podsChanged()
		if len(w.repairs) != 0 {
			t.Errorf("repairs of pods that are gone: %v", w.repairs)
		}
	})
}

// The pod has begun to run between the check and the repair.
func TestRepair_OvertakenByTheKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		w.put(failed(n))
		w.podsChanged()
		w.overwrite(failed(n, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		defer w.run(nil)()
		wait(t, time.Minute)
		if statuses, _ := w.counts(); statuses != 0 || w.Debts() != 0 || w.pod("p").Status.Phase != corev1.PodRunning {
			t.Errorf("%d statuses, %d debts, %+v", statuses, w.Debts(), w.pod("p").Status)
		}
	})
}

// The pods in the node's informer lack the beginning of a long message.
func TestRepair_RestoresTheWholeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		n.Message = strings.Repeat("Container c was using 2Gi, request is 1Gi, has larger consumption of memory. ", 100)
		w.put(failed(n))
		defer w.run(nil)()
		shown := w.pod("p")
		for i := range shown.Status.Conditions {
			c := &shown.Status.Conditions[i]
			c.Message = c.Message[max(0, len(c.Message)-4096):]
		}
		w.Repair(func(yield func(*corev1.Pod) bool) { yield(shown) }, func(string) bool { return true })
		wait(t, time.Second)
		if got := w.pod("p").Status; got.Reason != ReasonEvicted || got.Message != n.Message {
			t.Errorf("reason %q, %d bytes of a message of %d", got.Reason, len(got.Message), len(n.Message))
		}
		if statuses, _ := w.counts(); statuses != 1 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d debts", statuses, w.Debts())
		}
	})
}

// The condition of a later eviction does not belong to the repair.
func TestRepair_OvertakenByAnotherEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		w.put(failed(n))
		w.podsChanged()
		later := n
		later.Decided = n.Decided.Add(time.Minute)
		w.overwrite(failed(later))
		defer w.run(nil)()
		wait(t, time.Minute)
		if statuses, _ := w.counts(); statuses != 0 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d debts", statuses, w.Debts())
		}
		w.podsChanged()
		wait(t, time.Minute)
		if got := w.pod("p").Status; got.Reason != ReasonEvicted {
			t.Errorf("the later one is not repaired: %+v", got)
		}
	})
}

// The API stores the start of a container, and the decision in the condition, in whole seconds.
func TestRepair_OfAContainerThatStartedRightBeforeTheDecision(t *testing.T) {
	for about, tc := range map[string]struct {
		told    bool // recently reported, so that the killed containers are known
		started time.Duration
		repairs bool
	}{
		"killed, started in that second":         {true, 0, true},
		"killed, started before the kill":        {true, time.Second, true},
		"not known, started in that second":      {false, 0, true},
		"not known, started in the second after": {false, time.Second, false},
	} {
		t.Run(about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := takenBack(t, Options{Running: node()}, runs("id-p", time.Now()))
				if !tc.told {
					w = newWorld(t, Options{Running: node()})
				}
				w.put(failed(n, func(p *corev1.Pod) {
					p.Status.ContainerStatuses[0].State = ended("id-p", n.Decided.Add(tc.started))
				}))
				defer w.run(nil)()
				w.podsChanged()
				wait(t, time.Minute)
				if got := w.pod("p").Status; (got.Reason == ReasonEvicted && got.Message == n.Message) != tc.repairs {
					t.Errorf("%+v", got)
				}
				if w.Debts() != 0 {
					t.Errorf("%d debts", w.Debts())
				}
			})
		})
	}
}
