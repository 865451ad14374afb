package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// told returns the events about an object in order, as REPORTER REASON: MESSAGE.
func (r *rig) told(name string) (all []string) {
	r.with(func() {
		for _, e := range r.server.events {
			if e.InvolvedObject.Name == name {
				all = append(all, e.Source.Component+" "+e.Reason+": "+e.Message)
			}
		}
	})
	return all
}

func TestWithoutTaintsPodsGoWithTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.policy.NoExecute, r.policy.TaintEvictions = false, false
		r.policy.LegacyEvictions, r.policy.PodEvictionTimeout = true, 5*time.Minute
		var zones atomic.Value
		r.meters.Tainted = func(zone string) { zones.Store(zone) }
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.pod("a", "web")
		yes := true
		r.pod("a", "daemon", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Controller: &yes}}
		})
		r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(5*time.Minute - time.Millisecond)
		if r.livePod("web") == nil {
			t.Error("a pod is gone too early")
		}
		r.until(5*time.Minute + time.Second)
		if r.livePod("web") != nil || r.livePod("daemon") == nil {
			t.Errorf("the pods are %v and %v", r.livePod("web"), r.livePod("daemon"))
		}
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule" {
			t.Errorf("the taints are %s", got)
		}
		if zones.Load() != "r/z" {
			t.Errorf("a node was given up in the zone %v", zones.Load())
		}
		for name, want := range map[string][]string{
			"a":      {"node-controller NodeNotReady: Node a status is now: NodeNotReady", "node-controller DeletingAllPods: Node a event: Deleting all Pods from Node a."},
			"web":    {"node-controller NodeNotReady: Node is not ready", "node-controller NodeControllerEviction: Marking for deletion Pod web from Node a"},
			"daemon": {"node-controller NodeNotReady: Node is not ready"},
		} {
			if got := r.told(name); !slices.Equal(got, want) {
				t.Errorf("of %s was told:\n%s\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

func TestACalledOffEvictionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(300))
		r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(2 * time.Minute)
		r.beat(t.Context(), corev1.NamespaceNodeLease, "a")
		r.reports("a")
		r.until(10 * time.Minute)
		want := []string{"node-controller NodeNotReady: Node is not ready", "taint-eviction-controller TaintManagerEviction: Cancelling deletion of Pod default/web"}
		if got := r.told("web"); !slices.Equal(got, want) {
			t.Errorf("told:\n%s", strings.Join(got, "\n"))
		}
		if r.livePod("web") == nil {
			t.Error("the pod is gone")
		}
	})
}

func TestThereIsAWordingForEachEvent(t *testing.T) {
	for e := core.RegisteredNode; e <= core.BudgetRestored; e++ {
		if w := nodeEvents[e]; w.reason != e.String() || w.message == "" || w.kind == "" || w.by == "" {
			t.Errorf("of %s is told %+v", e, w)
		}
	}
}

func TestTooManyEventsAreDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.EventQPS = 10
		var dropped atomic.Int64
		r.meters.EventDropped = func() { dropped.Add(1) }
		r.start()
		const pods = maxEvents + 1000
		long := strings.Repeat("p", 253)
		for range pods { // nothing waits for them
			r.controller.events.pod(&model.Pod{Namespace: "n", Name: long, Node: "a"}, eventMarking)
		}
		if took := time.Since(r.begun); took != 0 {
			t.Errorf("to tell took %s", took)
		}
		r.until(10 * time.Second)
		sent := len(r.told(long))
		if sent < 100 || sent > 110 {
			t.Errorf("in 10 s %d events were sent at 10 a second and a burst of 10", sent)
		}
		if n := dropped.Load(); n < 1000-111 || n > 1000 {
			t.Errorf("%d events were dropped", n)
		}
		names := map[string]bool{}
		for _, e := range r.server.events {
			names[e.Name] = true
			if len(e.Name) > 253 {
				t.Errorf("an event is called %s", e.Name)
			}
		}
		if len(names) != len(r.server.events) {
			t.Errorf("%d events have %d names", len(r.server.events), len(names))
		}
	})
}

func TestWhyANodeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(time.Minute)
		want := `unreachable, last sign of life 00:00:00.000Z status; silent from 00:00:50.000Z; Ready Unknown since 00:00:50.000Z; zone "r/z" Normal at 1 nodes/s`
		for _, d := range r.decisions {
			if (d.Decision == "mark-unknown" || d.Decision == "taint") && d.Why != want {
				t.Errorf("the reason of %s is %s\nnot %s", fmt.Sprint(d.Decision, " ", d.What), d.Why, want)
			}
		}
	})
}
