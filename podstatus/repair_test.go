package podstatus

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failed is a pod that was evicted and whose kubelet has written over the reason.
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

// podsChanged shows the Teller the pods as the node's informer has them.
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

// The agent that evicted the pod has ended: the mark is all that its successor has.
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
		w.podsChanged() // as it should be
		wait(t, time.Hour)
		if statuses, events := w.counts(); statuses != 1 || events != 0 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
		}
	})
}

// Right after the kill the containers that were killed may still run, by the runtime.
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

// A kubelet that repeats its status every 10 s costs a dozen repairs a day, and the
// first is made at once.
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

// Between what was seen and the repair the pod has begun to run.
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
