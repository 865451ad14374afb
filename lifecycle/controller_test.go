package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestController_HandlesLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(30))
		r.pod("a", "stays", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()

		r.until(50*time.Second - time.Millisecond)
		if got := r.lines("mark-unknown", "taint", "mark-not-ready", "evict"); got != "" {
			t.Errorf("got decisions within the grace period:\n%s", got)
		}
		r.until(51 * time.Second)
		n := r.live("a")
		if c := conditionOf(n, corev1.NodeReady); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" ||
			c.Message != "Kubelet stopped posting node status." || !c.LastHeartbeatTime.Time.Equal(r.begun) {
			t.Errorf("got condition %+v", c)
		}
		if got, want := taintsOf(n), "unreachable:NoSchedule unreachable:NoExecute"; got != want {
			t.Errorf("got taints %s, want %s", got, want)
		}
		if c := r.livePod("web").Status.Conditions; c[0].Status != corev1.ConditionFalse || len(c) != 2 {
			t.Errorf("got pod conditions %+v", c)
		}
		r.until(81 * time.Second)
		if r.livePod("web") != nil {
			t.Error("a pod with 30 tolerationSeconds was not deleted after 31 s")
		}
		if r.livePod("stays") == nil {
			t.Error("a pod that tolerates everything was deleted")
		}
		want := "50s mark-unknown a Ready=Unknown (NodeStatusUnknown), MemoryPressure=Unknown (NodeStatusUnknown), DiskPressure=Unknown (NodeStatusUnknown), PIDPressure=Unknown (NodeStatusUnknown)\n" +
			"50s taint a +node.kubernetes.io/unreachable:NoSchedule, +node.kubernetes.io/unreachable:NoExecute\n" +
			"50s mark-not-ready a default/stays\n" + "50s mark-not-ready a default/web\n" + "80s evict a default/web\n"
		if got := strings.ReplaceAll(r.lines("mark-unknown", "taint", "mark-not-ready", "evict"), "1m20s", "80s"); got != want {
			t.Errorf("got decisions:\n%swant:\n%s", got, want)
		}
		var ofNode, ofPods []string
		for _, request := range r.seenRequests() {
			if strings.Contains(request, "pods/") {
				ofPods = append(ofPods, request)
			} else {
				ofNode = append(ofNode, request)
			}
		}
		if got, want := strings.Join(ofNode, ", "), "GET leases/a, PATCH nodes/a/status, GET nodes/a, PATCH nodes/a"; got != want {
			t.Errorf("got requests for the node %s, want %s", got, want)
		}
		slices.Sort(ofPods)
		if got, want := strings.Join(ofPods, ", "), "DELETE pods/web, PATCH pods/stays/status, PATCH pods/web/status, PATCH pods/web/status"; got != want {
			t.Errorf("got requests for pods %s, want %s", got, want)
		}
		r.expectRecovery("a", "b", "c")
	})
}

// expectRecovery makes the node report again, and checks that its initial state is restored.
func (r *env) expectRecovery(name string, others ...string) {
	r.t.Helper()
	r.reportReady(name)
	r.until(time.Since(r.begun) + time.Second)
	if got := taintsOf(r.live(name)); got != "" {
		r.t.Errorf("got taints %s after the return of the node", got)
	}
	for _, other := range others {
		if n := r.live(other); n.Spec.Taints != nil || conditionOf(n, corev1.NodeReady).Status != corev1.ConditionTrue {
			r.t.Errorf("a healthy node was changed: %+v", n)
		}
	}
}

// reportReady makes the node's kubelet report that it is ready.
func (r *env) reportReady(name string) {
	now := metav1.Now()
	r.with(func() {
		n := r.objects["nodes"]["/"+name].DeepCopyObject().(*corev1.Node)
		n.Status.Conditions = readyConditions(corev1.ConditionTrue, now)
		r.store("nodes", n)
	})
	r.renew(corev1.NamespaceNodeLease, name)
}

func TestController_NoLossDuringAPIOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		beating, stop := context.WithCancel(t.Context())
		r.renewEvery10s(beating, corev1.NamespaceNodeLease, "a", "b", "c")
		r.start()
		r.until(25 * time.Second)
		stop() // the server hangs: watches deliver nothing, requests get no answer
		r.hang(true)
		r.until(95 * time.Second)
		r.hang(false)
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a", "b", "c")
		r.until(10 * time.Minute)
		if got := r.lines("mark-unknown", "taint", "evict", "mark-not-ready"); got != "" {
			t.Errorf("got decisions after an outage of 70 s:\n%s", got)
		}
	})
}

// hang blocks all answers until it is turned off.
func (r *env) hang(on bool) {
	r.with(func() {
		r.fault = nil
		if on {
			r.fault = hanging
		}
	})
}

// Before every list is complete, a node that is not known may exist.
func TestController_NodesNeedEveryList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("a")
		r.with(func() { r.fault = refusing })
		r.start()
		r.until(5 * time.Second)
		if nodes, err := r.controller.Nodes(t.Context()); err == nil {
			t.Errorf("got nodes %v without a complete list", nodes)
		}
		r.with(func() { r.fault = nil })
		r.until(2 * time.Minute)
		if nodes, err := r.controller.Nodes(t.Context()); err != nil || !nodes["a"] {
			t.Errorf("got nodes %v, %v, want a", nodes, err)
		}
	})
}

func TestController_RelistsAfterLostWatch(t *testing.T) {
	for name, listsOnly := range map[string]bool{"streamed lists": false, "older server": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				r.listsOnly = listsOnly
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web")
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				r.start()
				r.until(5 * time.Second)
				r.with(func() { r.fault = refusing })
				r.cut()
				r.with(func() {
					delete(r.objects["nodes"], "/a")
					delete(r.objects["leases"], corev1.NamespaceNodeLease+"/a")
					delete(r.objects["pods"], "default/web")
					r.version++
				})
				r.pod("b", "new", tolerating(0))
				r.until(10 * time.Second)
				if err := r.controller.Ready(); err == nil {
					t.Error("the controller is ready without a server")
				}
				r.with(func() { r.fault = nil })
				r.until(40 * time.Second)
				if err := r.controller.Ready(); err != nil {
					t.Errorf("the controller is not ready after the outage: %v", err)
				}
				census, err := r.controller.Census(t.Context())
				if err != nil || census.Nodes != 2 || census.Pods != 1 {
					t.Errorf("got census %+v, %v, want 2 nodes and 1 pod", census, err)
				}
				if nodes, err := r.controller.Nodes(t.Context()); err != nil || len(nodes) != 2 || !nodes["b"] || !nodes["c"] {
					t.Errorf("got nodes %v, %v, want b and c", nodes, err)
				}
				if got := r.lines("event"); !strings.Contains(got, "event a RemovingNode") {
					t.Errorf("no event about the removed node:\n%s", got)
				}
			})
		})
	}
}

// Another policy applies at once, to what has begun under the one before, while the controller leads.
func TestController_Reconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(30 * time.Second)
		shorter := r.policy
		shorter.Health.Grace = 20 * time.Second
		r.controller.Reconfigure(shorter)
		r.until(32 * time.Second)
		if got := r.lines("mark-unknown"); !strings.HasPrefix(got, "30s mark-unknown a ") || strings.Count(got, "\n") != 1 {
			t.Errorf("got decisions:\n%s", got)
		}
	})
}
