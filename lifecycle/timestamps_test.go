package lifecycle

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEvict_NotBeforeTolerationSecondsEnd covers the API's resolution of whole seconds: an
// interval from one of its times must not end before an interval from the exact time would.
func TestEvict_NotBeforeTolerationSecondsEnd(t *testing.T) {
	const offset = 700 * time.Millisecond // of all times, from a whole second
	for _, c := range []struct {
		name          string
		slow          time.Duration // duration of a patch of a node
		failover      bool
		stays, leaves time.Duration
	}{
		{"same process", 0, false, 60*time.Second + offset, 60*time.Second + offset},
		{"slow write", 1900 * time.Millisecond, false, 62*time.Second + 500*time.Millisecond, 64*time.Second + 500*time.Millisecond},
		{"takeover by another process", 0, true, 60*time.Second + offset, 61 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.until(offset)
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web", tolerating(10))
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				r.with(func() {
					r.fault = func(q *http.Request) (*http.Response, error) {
						if q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/nodes/a") {
							<-time.After(c.slow)
						}
						return nil, nil
					}
				})
				r.start()
				if c.failover {
					r.until(55 * time.Second)
					r.stop()
					r.start()
				}
				r.until(c.stays - time.Millisecond)
				if r.livePod("web") == nil {
					t.Error("the pod was deleted before its time")
				}
				r.until(c.leaves + 50*time.Millisecond)
				if r.livePod("web") != nil {
					t.Error("the pod was not deleted")
				}
			})
		})
	}
}

// TestEvict_CountsFromTheEndOfTheSecond covers a user's taint observed long after it was
// written: it counts from the end of its second.
func TestEvict_CountsFromTheEndOfTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		added := metav1.NewTime(r.begun)
		r.until(3 * time.Second)
		r.node("a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}}
		})
		long, short := int64(10), int64(5)
		r.pod("a", "long", func(p *corev1.Pod) {
			p.CreationTimestamp = added
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: &long}}
		})
		r.pod("a", "new", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: &short}}
		})
		r.pod("a", "bare")
		r.start()
		for _, c := range []struct {
			at   time.Duration
			left string
		}{
			{3 * time.Second, "long new"}, {8*time.Second + 900*time.Millisecond, "long new"}, {9 * time.Second, "long"},
			{10*time.Second + 900*time.Millisecond, "long"}, {11 * time.Second, ""},
		} {
			r.until(c.at + 20*time.Millisecond)
			var left []string
			for _, name := range []string{"bare", "long", "new"} {
				if r.livePod(name) != nil {
					left = append(left, name)
				}
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("after %s: got pods %q, want %q", c.at, got, c.left)
			}
		}
	})
}

func TestTaint_NoScheduleHasTimeAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		r.start()
		r.until(5 * time.Second)
		taints := r.live("a").Spec.Taints
		if len(taints) != 1 || taints[0].TimeAdded == nil || !taints[0].TimeAdded.Time.Equal(r.begun) {
			t.Errorf("got taints %+v", taints)
		}
	})
}

// TestMarkNotReady_KeepsReasonAndMessage checks that, like upstream's, the mark changes only
// the status of the condition, not the kubelet's reason and message.
func TestMarkNotReady_KeepsReasonAndMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(300), func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason, p.Status.Conditions[0].Message = "GateOpen", "the gate is open"
		})
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b")
		r.start()
		r.until(time.Minute)
		got := r.livePod("web").Status.Conditions[0]
		want := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "GateOpen", Message: "the gate is open", LastTransitionTime: got.LastTransitionTime}
		if got != want || !got.LastTransitionTime.Time.Equal(r.begun.Add(50*time.Second)) {
			t.Errorf("got condition %+v, want %+v", got, want)
		}
	})
}

func TestEvents_OfNodesAreUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("b")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b")
		r.start()
		r.until(time.Second)
		n := r.node("a")
		r.until(2 * time.Second)
		r.with(func() { r.remove("nodes", n) })
		r.until(4 * time.Second)
		want := "node-controller RegisteredNode: Node a event: Registered Node a in Controller\n" +
			"node-controller RemovingNode: Node a event: Removing Node a from Controller"
		if got := strings.Join(r.eventsAbout("a"), "\n"); got != want {
			t.Errorf("got events\n%s\nwant\n%s", got, want)
		}
	})
}
