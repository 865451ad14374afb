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

// setEvicted sets the status of a pod that its node's agent has evicted now.
func setEvicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		{Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}
}

// changePod changes an existing pod.
func (r *env) changePod(name string, change func(*corev1.Pod)) {
	r.with(func() {
		p := r.objects["pods"]["default/"+name].DeepCopyObject().(*corev1.Pod)
		change(p)
		r.store("pods", p)
	})
}

func (r *env) dropPod(name string) {
	r.with(func() { r.remove("pods", r.objects["pods"]["default/"+name]) })
}

// runEvictedPod runs a controller with the pod web, which its agent evicts after 10 s. The TTL of
// its object is ten minutes.
func runEvictedPod(t *testing.T, set func(r *env), during func(r *env)) *env {
	r := newEnv(t)
	r.policy.EvictedPodTTL = 10 * time.Minute
	if set != nil {
		set(r)
	}
	for _, name := range []string{"a", "b"} {
		r.node(name)
	}
	r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a", "b")
	r.pod("a", "web")
	r.pod("a", "failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	r.start()
	r.until(10 * time.Second)
	r.changePod("web", setEvicted)
	during(r)
	return r
}

func TestEvictedPod_DeletedAfterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runEvictedPod(t, nil, func(r *env) { r.until(10*time.Second + 10*time.Minute - time.Millisecond) })
		census, err := r.controller.Census(t.Context())
		if r.livePod("web") == nil || err != nil || census.EvictedPods != 1 || census.Pods != 2 {
			t.Errorf("before the TTL: got pod %v, census %+v, %v", r.livePod("web"), census, err)
		}
		r.until(10*time.Second + 10*time.Minute + slack)
		if r.livePod("web") != nil || r.livePod("failed") == nil {
			t.Error("the evicted pod was not deleted, or an unmarked pod was")
		}
		r.until(time.Hour)
		if got, want := r.lines("delete-evicted-pod", "evict", "cancel"), "10m10s delete-evicted-pod a default/web\n"; got != want {
			t.Errorf("got decisions:\n%swant:\n%s", got, want)
		}
		if got, want := strings.Join(r.seenRequests(), ", "), "GET pods/web, DELETE pods/web"; got != want {
			t.Errorf("got requests %s, want %s", got, want)
		}
		r.decided.Lock()
		defer r.decided.Unlock()
		last := r.decisions[len(r.decisions)-1]
		if want := "its node's agent evicted it at " + stamp(r.begun.Add(10*time.Second)); last.Why != want || last.UID != "uid-web" || last.DryRun {
			t.Errorf("got decision %+v, want reason %q", last, want)
		}
	})
}

// TestEvictedPod_DeletedWithoutReason covers a kubelet that overwrites the reason: the mark
// decides.
func TestEvictedPod_DeletedWithoutReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runEvictedPod(t, nil, func(r *env) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "", "" })
			r.until(time.Hour)
		})
		if r.livePod("web") != nil || r.livePod("failed") == nil {
			t.Error("the evicted pod was not deleted, or an unmarked pod was")
		}
		if got, want := r.lines("delete-evicted-pod", "evict", "cancel"), "10m10s delete-evicted-pod a default/web\n"; got != want {
			t.Errorf("got decisions:\n%swant:\n%s", got, want)
		}
	})
}

func TestEvictedPod_NotDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(r *env)
		during func(r *env)
		want   string
	}{
		"mode observe": {func(r *env) { r.settings.Mode = Observe }, nil, "10m10s delete-evicted-pod a default/web\n"},
		"TTL 0":        {func(r *env) { r.policy.EvictedPodTTL = 0 }, nil, ""},
		"mark removed": {nil, func(r *env) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })
		}, ""},
		"already deleted": {nil, func(r *env) {
			r.changePod("web", func(p *corev1.Pod) {
				now := metav1.Now()
				p.DeletionTimestamp, p.Finalizers = &now, []string{"k"}
			})
		}, ""},
		"mark without a time": {nil, func(r *env) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Time{} })
		}, ""},
		"another pod of its name": {nil, func(r *env) {
			r.dropPod("web")
			r.pod("b", "web", func(p *corev1.Pod) { p.UID = types.UID("uid-other") })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runEvictedPod(t, c.set, func(r *env) {
					r.until(time.Minute)
					if c.during != nil {
						c.during(r)
					}
					r.until(2 * time.Hour)
				})
				if got := r.lines("delete-evicted-pod"); got != c.want {
					t.Errorf("got decisions:\n%swant:\n%s", got, c.want)
				}
				if got := r.seenRequests(); r.livePod("web") == nil || len(got) > 0 {
					t.Errorf("the pod was deleted, or got requests %v", got)
				}
			})
		})
	}
}

// TestDeleteEvictedPod_RereadsMark checks that changes which the watch has not
// delivered yet count.
func TestDeleteEvictedPod_RereadsMark(t *testing.T) {
	for name, c := range map[string]struct {
		since func(p *corev1.Pod) // after its observation
		late  func(r *env)        // between read and delete
		want  func(err error) bool
		gone  bool
	}{
		"no change":  {want: func(err error) bool { return err == nil }, gone: true},
		"no mark":    {since: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: isObsolete},
		"mark False": {since: func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, want: isObsolete},
		"new mark": {since: func(p *corev1.Pod) {
			p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
		}, want: isObsolete},
		"already deleted": {since: func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }, want: isObsolete},
		"another pod":     {since: func(p *corev1.Pod) { p.UID = "other" }, want: func(err error) bool { return err == nil }},
		"change after the read": {late: func(r *env) {
			r.changePod("web", func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse })
		}, want: func(err error) bool { return err != nil && strings.Contains(err.Error(), "delete pod default/web") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				p := r.modelPod(r.pod("a", "web", setEvicted))
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
					t.Errorf("got error %v", err)
				}
				if gone := r.livePod("web") == nil; gone != c.gone {
					t.Errorf("pod deleted: got %v, want %v", gone, c.gone)
				}
			})
		})
	}
}

func isObsolete(err error) bool { return errors.Is(err, core.ErrObsolete) }

func TestDeleteEvictedPod_RetriesRefusedDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runEvictedPod(t, nil, func(r *env) {
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
			t.Error("the pod was not deleted")
		}
		var tried []string
		for line := range strings.Lines(r.lines("delete-evicted-pod")) {
			if f := strings.Fields(line); len(f) == 4 {
				tried = append(tried, f[0])
			} else if !strings.Contains(line, "delete pod default/web") {
				t.Errorf("unexpected failure: %s", line)
			}
		}
		if want := []string{"10m10s", "10m20s", "10m40s", "11m20s", "12m40s"}; !slices.Equal(tried, want) {
			t.Errorf("got attempts at %v, want %v", tried, want)
		}
	})
}

// TestDeleteEvictedPod_DoesNotDelayTaint covers hundreds of evicted pods that are due while a node
// dies, at one request per second.
func TestDeleteEvictedPod_DoesNotDelayTaint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.QPS, r.settings.Burst, r.settings.EventQPS = 1, 1, 0
		r.policy.EvictedPodTTL = time.Minute
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		for i := range 200 {
			r.pod("b", "left"+string(rune('a'+i/26))+string(rune('a'+i%26)), setEvicted)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.until(15 * time.Second)
		r.renew(corev1.NamespaceNodeLease, "a") // silent at 65 s, during the deletions
		r.start()
		r.until(72 * time.Second)
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("7 s after the loss of the node: got taints %q", got)
		}
		r.until(time.Hour)
		if left := r.count("pods"); left != 0 {
			t.Errorf("got %d pods left, want none", left)
		}
	})
}
