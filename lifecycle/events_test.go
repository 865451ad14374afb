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

// eventsAbout returns the events about an object in order, as REPORTER REASON: MESSAGE.
func (r *env) eventsAbout(name string) (all []string) {
	r.with(func() {
		for _, e := range r.server.events {
			if e.InvolvedObject.Name == name {
				all = append(all, e.Source.Component+" "+e.Reason+": "+e.Message)
			}
		}
	})
	return all
}

func TestLegacyEviction_DeletesPodsOfLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
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
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(5*time.Minute - time.Millisecond)
		if r.livePod("web") == nil {
			t.Error("the pod was deleted before its time")
		}
		r.until(5*time.Minute + time.Second)
		if r.livePod("web") != nil || r.livePod("daemon") == nil {
			t.Errorf("got pods %v and %v, want only daemon", r.livePod("web"), r.livePod("daemon"))
		}
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule" {
			t.Errorf("got taints %s, want unreachable:NoSchedule", got)
		}
		if zones.Load() != "r/z" {
			t.Errorf("got a lost node in zone %v, want r/z", zones.Load())
		}
		for name, want := range map[string][]string{
			"a":      {"node-controller NodeNotReady: Node a status is now: NodeNotReady", "node-controller DeletingAllPods: Node a event: Deleting all Pods from Node a."},
			"web":    {"node-controller NodeNotReady: Node is not ready", "node-controller NodeControllerEviction: Marking for deletion Pod web from Node a"},
			"daemon": {"node-controller NodeNotReady: Node is not ready"},
		} {
			if got := r.eventsAbout(name); !slices.Equal(got, want) {
				t.Errorf("%s: got events:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

func TestEvents_ReportCancelledEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(300))
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(2 * time.Minute)
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a")
		r.reportReady("a")
		r.until(10 * time.Minute)
		want := []string{"node-controller NodeNotReady: Node is not ready", "taint-eviction-controller TaintManagerEviction: Cancelling deletion of Pod default/web"}
		if got := r.eventsAbout("web"); !slices.Equal(got, want) {
			t.Errorf("got events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.livePod("web") == nil {
			t.Error("the pod was deleted")
		}
	})
}

func TestEvents_HaveTemplateForEachKind(t *testing.T) {
	for e := core.RegisteredNode; e <= core.BudgetRestored; e++ {
		if w := nodeEvents[e]; w.reason != e.String() || w.message == "" || w.kind == "" || w.source == "" {
			t.Errorf("%s: got template %+v", e, w)
		}
	}
}

func TestEvents_OfClusterHaveCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.EventQPS = 10
		r.start()
		r.controller.events.cluster(nodeEvents[core.BudgetExceeded], "3 of 10 nodes are unready")
		r.controller.events.cluster(nodeEvents[core.BreakerClosed], "")
		r.until(10 * time.Second)
		want := []string{"node-controller BudgetExceeded: More nodes are unready than allowed (3 of 10 nodes are unready)",
			"node-controller BreakerClosed: Nodes with missed heartbeats are declared lost again"}
		if got := r.eventsAbout(r.settings.Election.Name); !slices.Equal(got, want) {
			t.Errorf("got events %q, want %q", got, want)
		}
	})
}

func TestEvents_DropAndCountOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.EventQPS = 10
		var dropped atomic.Int64
		r.meters.EventDropped = func() { dropped.Add(1) }
		r.start()
		const pods = maxEvents + 1000
		long := strings.Repeat("p", 253)
		for range pods { // none is awaited
			r.controller.events.pod(&model.Pod{Namespace: "n", Name: long, Node: "a"}, eventMarking)
		}
		if took := time.Since(r.begun); took != 0 {
			t.Errorf("the enqueue took %s, want 0s", took)
		}
		r.until(10 * time.Second)
		sent := len(r.eventsAbout(long))
		if sent < 100 || sent > 110 {
			t.Errorf("got %d events in 10 s at 10/s and a burst of 10, want 100 to 110", sent)
		}
		if n := dropped.Load(); n < 1000-111 || n > 1000 {
			t.Errorf("got %d dropped events, want 889 to 1000", n)
		}
		names := map[string]bool{}
		for _, e := range r.server.events {
			names[e.Name] = true
			if len(e.Name) > 253 {
				t.Errorf("event name is too long: %s", e.Name)
			}
		}
		if len(names) != len(r.server.events) {
			t.Errorf("got %d unique names of %d events", len(names), len(r.server.events))
		}
	})
}

func TestDecision_ExplainsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(time.Minute)
		want := `unreachable, last sign of life 00:00:00.000Z status; silent from 00:00:50.000Z; Ready Unknown since 00:00:50.000Z; zone "r/z" Normal at 1 nodes/s`
		for _, d := range r.decisions {
			if (d.Decision == "mark-unknown" || d.Decision == "taint") && d.Why != want {
				t.Errorf("%s: got reason %s\nwant %s", fmt.Sprint(d.Decision, " ", d.What), d.Why, want)
			}
		}
	})
}
