package lifecycle

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// evicted makes a pod one that its node's agent has evicted, now.
func evicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		{Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}
}

// changePod changes an existing pod.
func (r *rig) changePod(name string, change func(*corev1.Pod)) {
	r.with(func() {
		p := r.things["pods"]["default/"+name].DeepCopyObject().(*corev1.Pod)
		change(p)
		r.store("pods", p)
	})
}

func (r *rig) dropPod(name string) {
	r.with(func() { r.remove("pods", r.things["pods"]["default/"+name]) })
}

// leftBehind runs a story about the pod web. Its agent evicts it 10 s after the beginning, and
// its object is kept for ten minutes.
func leftBehind(t *testing.T, set func(r *rig), story func(r *rig)) *rig {
	r := newRig(t)
	r.policy.EvictedPodTTL = 10 * time.Minute
	if set != nil {
		set(r)
	}
	for _, name := range []string{"a", "b"} {
		r.node(name)
	}
	r.beat(t.Context(), corev1.NamespaceNodeLease, "a", "b")
	r.pod("a", "web")
	r.pod("a", "failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	r.start()
	r.until(10 * time.Second)
	r.changePod("web", evicted)
	story(r)
	return r
}

func TestWhatIsLeftOfAnEvictedPodIsDeletedInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leftBehind(t, nil, func(r *rig) { r.until(10*time.Second + 10*time.Minute - time.Millisecond) })
		census, err := r.controller.Census(t.Context())
		if r.livePod("web") == nil || err != nil || census.Kept != 1 || census.Pods != 2 {
			t.Errorf("before its time: %+v, %v", census, err)
		}
		r.until(10*time.Second + 10*time.Minute + slack)
		if r.livePod("web") != nil || r.livePod("failed") == nil {
			t.Error("it is there in its time, or one that nobody marked is gone")
		}
		r.until(time.Hour)
		if got, want := r.lines("delete-evicted-pod", "evict", "cancel"), "10m10s delete-evicted-pod a default/web\n"; got != want {
			t.Errorf("told:\n%snot\n%s", got, want)
		}
		if got, want := strings.Join(r.seenRequests(), ", "), "GET pods/web, DELETE pods/web"; got != want {
			t.Errorf("the requests were %s, not %s", got, want)
		}
		r.decided.Lock()
		defer r.decided.Unlock()
		last := r.decisions[len(r.decisions)-1]
		if want := "its node's agent evicted it at " + stamp(r.begun.Add(10*time.Second)); last.Why != want || last.UID != "uid-web" || last.Rehearsed {
			t.Errorf("the decision is %+v, not for %q", last, want)
		}
	})
}

// TestEvictedPod_DeletedWithoutReason covers a kubelet that overwrites the reason: the mark
// decides.
func TestEvictedPod_DeletedWithoutReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leftBehind(t, nil, func(r *rig) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "", "" })
			r.until(time.Hour)
		})
		if r.livePod("web") != nil || r.livePod("failed") == nil {
			t.Error("it is there after its time, or one that nobody marked is gone")
		}
		if got, want := r.lines("delete-evicted-pod", "evict", "cancel"), "10m10s delete-evicted-pod a default/web\n"; got != want {
			t.Errorf("told:\n%snot\n%s", got, want)
		}
	})
}

func TestWhatIsLeftOfAnEvictedPodStays(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(r *rig)
		story func(r *rig)
		told  string
	}{
		"in mode observe": {func(r *rig) { r.settings.Mode = Observe }, nil, "10m10s delete-evicted-pod a default/web\n"},
		"for ever":        {func(r *rig) { r.policy.EvictedPodTTL = 0 }, nil, ""},
		"if somebody takes the mark away": {nil, func(r *rig) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })
		}, ""},
		"if it ends already": {nil, func(r *rig) {
			r.changePod("web", func(p *corev1.Pod) {
				now := metav1.Now()
				p.DeletionTimestamp, p.Finalizers = &now, []string{"k"}
			})
		}, ""},
		"if nobody knows when": {nil, func(r *rig) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Time{} })
		}, ""},
		"and so does another pod of its name": {nil, func(r *rig) {
			r.dropPod("web")
			r.pod("b", "web", func(p *corev1.Pod) { p.UID = types.UID("uid-other") })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := leftBehind(t, c.set, func(r *rig) {
					r.until(time.Minute)
					if c.story != nil {
						c.story(r)
					}
					r.until(2 * time.Hour)
				})
				if got := r.lines("delete-evicted-pod"); got != c.told {
					t.Errorf("told:\n%snot\n%s", got, c.told)
				}
				if got := r.seenRequests(); r.livePod("web") == nil || len(got) > 0 {
					t.Errorf("it is gone, by %v", got)
				}
			})
		})
	}
}

// TestTheMarkIsReadOnceMoreBeforeTheDelete checks that changes which the watch has not
// delivered yet count.
func TestTheMarkIsReadOnceMoreBeforeTheDelete(t *testing.T) {
	for name, c := range map[string]struct {
		since func(p *corev1.Pod) // after the controller has seen it
		late  func(r *rig)        // between read and delete
		want  func(err error) bool
		gone  bool
	}{
		"nothing happened":  {want: func(err error) bool { return err == nil }, gone: true},
		"it has no mark":    {since: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: isOvertaken},
		"it has it no more": {since: func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, want: isOvertaken},
		"it was marked anew": {since: func(p *corev1.Pod) {
			p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
		}, want: isOvertaken},
		"somebody has deleted it": {since: func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }, want: isOvertaken},
		"it is another one":       {since: func(p *corev1.Pod) { p.UID = "other" }, want: func(err error) bool { return err == nil }},
		"it changes after that": {late: func(r *rig) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })
		}, want: func(err error) bool { return err != nil && strings.Contains(err.Error(), "delete pod default/web") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.seenPod(r.pod("a", "web", evicted))
				if c.since != nil {
					r.changePod("web", c.since)
				}
				r.with(func() {
					r.fault = func(q *http.Request) (*http.Response, error) {
						if q.Method == http.MethodDelete && c.late != nil {
							c.late(r)
						}
						return nil, nil
					}
				})
				if err := r.execute(&core.Action{Kind: core.DeleteEvictedPod, Node: "a", Pod: p}); !c.want(err) {
					t.Errorf("it ended with %v", err)
				}
				if gone := r.livePod("web") == nil; gone != c.gone {
					t.Errorf("the pod is gone: %v", gone)
				}
			})
		})
	}
}

func isOvertaken(err error) bool { return errors.Is(err, core.ErrObsolete) }

func TestADeleteThatIsRefusedIsToldAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := leftBehind(t, nil, func(r *rig) {
			r.with(func() {
				r.fault = func(q *http.Request) (*http.Response, error) {
					if q.Method == http.MethodDelete && time.Since(r.begun) < 12*time.Minute {
						return busy(q)
					}
					return nil, nil
				}
			})
			r.until(time.Hour)
		})
		if r.livePod("web") != nil {
			t.Error("it is there still")
		}
		var tried []string
		for line := range strings.Lines(r.lines("delete-evicted-pod")) {
			if f := strings.Fields(line); len(f) == 4 {
				tried = append(tried, f[0])
			} else if !strings.Contains(line, "delete pod default/web") {
				t.Errorf("told of a failure: %s", line)
			}
		}
		if want := []string{"10m10s", "10m20s", "10m40s", "11m20s", "12m40s"}; !slices.Equal(tried, want) {
			t.Errorf("tried at %v, not at %v", tried, want)
		}
	})
}

// TestCleaningUpHoldsNothingUp covers hundreds of evicted pods that are due while a node dies,
// at one request per second.
func TestCleaningUpHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.QPS, r.settings.Burst, r.settings.EventQPS = 1, 1, 0
		r.policy.EvictedPodTTL = time.Minute
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		for i := range 200 {
			r.pod("b", "left"+string(rune('a'+i/26))+string(rune('a'+i%26)), evicted)
		}
		r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.until(15 * time.Second)
		r.renew(corev1.NamespaceNodeLease, "a") // silent at 65 s, during the deletions
		r.start()
		r.until(72 * time.Second)
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("7 s after its death the node's taints are %q", got)
		}
		r.until(time.Hour)
		if left := r.count("pods"); left != 0 {
			t.Errorf("%d pods are left", left)
		}
	})
}
