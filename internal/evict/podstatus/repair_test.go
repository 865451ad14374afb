package podstatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// podsChanged passes the pods to the Reporter like the node's informer.
func (h *harness) podsChanged() {
	pod := h.pod("p")
	h.Repair(func(yield func(*corev1.Pod) bool) {
		if pod != nil {
			yield(pod)
		}
	}, func(uid string) bool { return pod != nil && string(pod.UID) == uid })
}

// overwrite is a kubelet that repeats its status.
func (h *harness) overwrite(pod *corev1.Pod) { h.with(func() { h.put(pod.DeepCopy()) }) }

// The agent that evicted the pod has ended: its successor has only the condition.
func TestRepair_RestoresReasonAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		h.put(failed(n))
		before := h.pod("p").Status.Conditions
		defer h.run(nil)()
		h.podsChanged()
		wait(t, time.Second)
		got := h.pod("p").Status
		if got.Phase != corev1.PodFailed || got.Reason != ReasonEvicted || got.Message != n.Message || !slices.Equal(got.Conditions, before) {
			t.Errorf("got status %+v", got)
		}
		h.podsChanged() // the status is correct
		wait(t, time.Hour)
		if statuses, events := h.counts(); statuses != 1 || events != 0 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
		}
	})
}

// Right after the kill the runtime may still report the killed containers as running.
func TestRepair_WorksWhileKilledContainersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := overwritten(t, Options{Running: node("id-p")}, runs("id-p", time.Now().Add(-time.Hour)))
		h.put(failed(n))
		defer h.run(nil)()
		h.podsChanged()
		wait(t, time.Second)
		if got := h.pod("p").Status; got.Reason != ReasonEvicted || got.Message != n.Message {
			t.Errorf("got status %+v", got)
		}
		if statuses, events := h.counts(); statuses != 2 || events != 1 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
		}
	})
}

// The reason is restored, too, if a container that started later was killed for the same eviction.
func TestRepair_RestoresReasonOfPodKilledAgain(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, n := newHarness(t, Options{Running: node()}), notice("p")
			n.Decided = time.Now().Add(-time.Minute)
			h.put(failed(n, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = ended("id-new", time.Now()) }))
			if again {
				h.AlsoKilled(n.UID, []string{"id-new"})
			}
			defer h.run(nil)()
			h.podsChanged()
			wait(t, time.Minute)
			if got := h.pods["shop/p"].Status.Message; (got != "") != again {
				t.Errorf("killed again: %v, message %q", again, got)
			}
		})
	}
}

func TestAlsoKilled_IsBounded(t *testing.T) {
	h := New(nil, "node-1", slog.New(slog.DiscardHandler), func([]PendingStatus) {}, Options{})
	for i := range 3 * maxAlsoKilled {
		h.AlsoKilled(fmt.Sprint(i), []string{"a"})
		h.AlsoKilled("one", []string{fmt.Sprint(i)})
	}
	if len(h.alsoKilled) > maxAlsoKilled || len(h.alsoKilled["one"]) > maxAlsoKilled {
		t.Errorf("%d pods, %d containers of one, want at most %d", len(h.alsoKilled), len(h.alsoKilled["one"]), maxAlsoKilled)
	}
}

func TestHasEnded_ReadsPod(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*harness)
		want   bool
		fails  bool
	}{
		"failed":            {func(*harness) {}, true, false},
		"succeeded":         {func(h *harness) { h.pods["shop/p"].Status.Phase = corev1.PodSucceeded }, true, false},
		"running":           {func(h *harness) { h.pods["shop/p"].Status.Phase = corev1.PodRunning }, false, false},
		"another pod":       {func(h *harness) { h.pods["shop/p"].UID = "other" }, false, false},
		"no pod":            {func(h *harness) { delete(h.pods, "shop/p") }, false, false},
		"no answer in time": {func(h *harness) { h.broken(hang) }, false, true},
		"no right": {func(h *harness) {
			h.broken(answering(apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("RBAC"))))
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{}), notice("p")
				h.put(failed(n, func(*corev1.Pod) {}))
				tc.change(h)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got, err := h.HasEnded(ctx, "shop", "p", n.UID); got != tc.want || (err != nil) != tc.fails {
					t.Errorf("got %v, %v, want %v", got, err, tc.want)
				}
			})
		})
	}
}

func TestRepair_IgnoresOtherPods(t *testing.T) {
	for name, tc := range map[string]struct {
		runs   []string
		change func(*corev1.Pod)
	}{
		"running pod":                {nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		"foreign reason":             {nil, func(p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" }},
		"evicted by another program": {nil, func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = ReasonEvicted, "m" }},
		"no condition":               {nil, func(p *corev1.Pod) { p.Status.Conditions = nil }},
		"condition False":            {nil, func(p *corev1.Pod) { p.Status.Conditions[len(p.Status.Conditions)-1].Status = corev1.ConditionFalse }},
		"restarted and ended": {nil, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = ended("id-new", time.Now())
		}},
		"restarted, by the runtime": {[]string{"id-new"}, func(*corev1.Pod) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{Running: node(tc.runs...)}), notice("p")
				n.Decided = time.Now().Add(-time.Hour)
				h.put(failed(n, tc.change))
				defer h.run(nil)()
				for range 3 {
					h.podsChanged()
					wait(t, time.Hour)
				}
				if statuses, events := h.counts(); statuses != 0 || events != 0 || h.PendingCount() != 0 {
					t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
				}
			})
		})
	}
}

// A kubelet that repeats its status every 10 s costs a dozen repairs a day. The first is immediate.
func TestRepair_BacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		lost := failed(n)
		h.put(lost)
		defer h.run(nil)()
		for range 24 * 360 {
			h.overwrite(lost)
			h.podsChanged()
			wait(t, time.Millisecond)
			h.podsChanged() // one repair for one change
			wait(t, 10*time.Second)
		}
		if statuses, _ := h.counts(); statuses < 12 || statuses > 40 {
			t.Errorf("got %d repairs in a day, want 12 to 40", statuses)
		}
		h.with(func() { delete(h.pods, "shop/p") })
		h.podsChanged()
		if len(h.repairs) != 0 {
			t.Errorf("got repairs of gone pods %v, want none", h.repairs)
		}
	})
}

// The pod has begun to run between the check and the repair.
func TestRepair_SkipsPodThatRunsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		h.put(failed(n))
		h.podsChanged()
		h.overwrite(failed(n, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		defer h.run(nil)()
		wait(t, time.Minute)
		if statuses, _ := h.counts(); statuses != 0 || h.PendingCount() != 0 || h.pod("p").Status.Phase != corev1.PodRunning {
			t.Errorf("got %d statuses, %d pending, %+v", statuses, h.PendingCount(), h.pod("p").Status)
		}
	})
}

// The pods in the node's informer lack the beginning of a long message.
func TestRepair_RestoresFullMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		n.Message = strings.Repeat("Container c was using 2Gi, request is 1Gi, has larger consumption of memory. ", 100)
		h.put(failed(n))
		defer h.run(nil)()
		shown := h.pod("p")
		for i := range shown.Status.Conditions {
			c := &shown.Status.Conditions[i]
			c.Message = c.Message[max(0, len(c.Message)-4096):]
		}
		h.Repair(func(yield func(*corev1.Pod) bool) { yield(shown) }, func(string) bool { return true })
		wait(t, time.Second)
		if got := h.pod("p").Status; got.Reason != ReasonEvicted || got.Message != n.Message {
			t.Errorf("got reason %q and %d bytes of the message, want %d", got.Reason, len(got.Message), len(n.Message))
		}
		if statuses, _ := h.counts(); statuses != 1 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d pending", statuses, h.PendingCount())
		}
	})
}

// The condition of a later eviction does not belong to the repair.
func TestRepair_SkipsPodEvictedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{Running: node()}), notice("p")
		n.Decided = time.Now().Add(-time.Hour)
		h.put(failed(n))
		h.podsChanged()
		later := n
		later.Decided = n.Decided.Add(time.Minute)
		h.overwrite(failed(later))
		defer h.run(nil)()
		wait(t, time.Minute)
		if statuses, _ := h.counts(); statuses != 0 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d pending", statuses, h.PendingCount())
		}
		h.podsChanged()
		wait(t, time.Minute)
		if got := h.pod("p").Status; got.Reason != ReasonEvicted {
			t.Errorf("got status %+v, want the later eviction repaired", got)
		}
	})
}

// The API stores the start of a container, and the decision in the condition, in whole seconds.
func TestRepair_ComparesStartsInWholeSeconds(t *testing.T) {
	for name, tc := range map[string]struct {
		reported bool // recently reported, so that the killed containers are known
		started  time.Duration
		repairs  bool
	}{
		"killed, started in that second":       {true, 0, true},
		"killed, started before the kill":      {true, time.Second, true},
		"unknown, started in that second":      {false, 0, true},
		"unknown, started in the second after": {false, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := overwritten(t, Options{Running: node()}, runs("id-p", time.Now()))
				if !tc.reported {
					h = newHarness(t, Options{Running: node()})
				}
				h.put(failed(n, func(p *corev1.Pod) {
					p.Status.ContainerStatuses[0].State = ended("id-p", n.Decided.Add(tc.started))
				}))
				defer h.run(nil)()
				h.podsChanged()
				wait(t, time.Minute)
				if got := h.pod("p").Status; (got.Reason == ReasonEvicted && got.Message == n.Message) != tc.repairs {
					t.Errorf("got status %+v", got)
				}
				if h.PendingCount() != 0 {
					t.Errorf("got %d pending statuses", h.PendingCount())
				}
			})
		})
	}
}
