package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// TestExecutor_DropsObsoleteEvictions covers a limit of one request per second, at which the pods
// of a node wait for minutes. Evictions still waiting when the node returns are dropped.
func TestExecutor_DropsObsoleteEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.QPS, r.settings.Burst, r.settings.EventQPS = 1, 1, 0
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		const pods = 30
		for i := range pods {
			r.pod("a", fmt.Sprintf("web%02d", i), tolerating(0))
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(70 * time.Second)
		left := r.count("pods")
		if left == pods || left == 0 {
			t.Fatalf("after 20 s at 1/s: got %d of %d pods left", left, pods)
		}
		r.reportReady("a")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a")
		r.until(5 * time.Minute)
		if lost := left - r.count("pods"); lost > 0 { // including those with the condition set already
			t.Errorf("got %d deletions of pods after the return of their node", lost)
		}
		if got := taintsOf(r.live("a")); got != "" {
			t.Errorf("got taints %s after the return of the node", got)
		}
		if got := r.lines("evict"); strings.Contains(got, "error") {
			t.Errorf("got failed evictions:\n%s", got)
		}
	})
}

// TestExecutor_ObsoleteTasksUseNoTurns covers hundreds of queued evictions. When their node
// returns, the least urgent action has its turn at once.
func TestExecutor_ObsoleteTasksUseNoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.QPS, r.settings.Burst, r.settings.EventQPS = 1, 1, 0
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		for i := range 300 {
			r.pod("a", fmt.Sprintf("web%03d", i), tolerating(0))
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(70 * time.Second)
		r.reportReady("a")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a")
		r.node("c", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
		r.until(80 * time.Second)
		if r.live("c").Labels[convert.LabelOldOS] != "linux" {
			t.Error("obsolete evictions delayed a label")
		}
	})
}

// TestExecutor_AppliesRenewalsBeforeWrite covers a renewal queued for reading in a batch. A write
// for a missed grace period must not begin before it is read.
func TestExecutor_AppliesRenewalsBeforeWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.QPS, r.settings.Burst, r.policy.Confirmation.LiveReads = 1, 1, false
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(51*time.Second - renewalDelay/2) // its conditions are written, its taints are next
		r.renew(corev1.NamespaceNodeLease, "a")
		r.until(52 * time.Second)
		if n := r.live("a"); conditionOf(n, corev1.NodeReady).Status != corev1.ConditionUnknown || taintsOf(n) != "" {
			t.Errorf("got Ready %s and taints %q, want Unknown without taints", conditionOf(n, corev1.NodeReady).Status, taintsOf(n))
		}
	})
}

// TestExecutor_RunsUrgentTasksFirst covers a node that dies while hundreds of evictions
// use the budget and a node's label waits for its turn.
func TestExecutor_RunsUrgentTasksFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.settings.QPS, r.settings.Burst, r.settings.EventQPS = 1, 1, 0
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		for i := range 300 {
			r.pod("b", fmt.Sprintf("web%03d", i))
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		r.start()
		r.until(30 * time.Second)
		r.change("b", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "user", Effect: corev1.TaintEffectNoExecute}}
		})
		r.until(35 * time.Second)
		r.change("a", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
		r.until(65 * time.Second) // a label, a read of a lease, conditions, taints: six turns
		if n := r.live("a"); conditionOf(n, corev1.NodeReady).Status != corev1.ConditionUnknown || taintsOf(n) == "" {
			t.Errorf("15 s after the loss: got Ready %s and taints %q", conditionOf(n, corev1.NodeReady).Status, taintsOf(n))
		}
		if left := r.count("pods"); left < 200 {
			t.Errorf("got %d pods left, want at least 200: the budget was not exhausted", left)
		}
	})
}

// eventsOf counts events by reason.
func (r *env) eventsOf(reasons ...string) (n int) {
	r.with(func() {
		for _, e := range r.events {
			if slices.Contains(reasons, e.Reason) {
				n++
			}
		}
	})
	return n
}

// change changes a node.
func (r *env) change(name string, do func(*corev1.Node)) {
	r.with(func() {
		n := r.objects["nodes"]["/"+name].DeepCopyObject().(*corev1.Node)
		do(n)
		r.store("nodes", n)
	})
}

func (r *env) count(kind string) (n int) {
	r.with(func() { n = len(r.objects[kind]) })
	return n
}

// TestTask_WritesNothingAfterLeaseDuration covers a process that was stopped for longer than
// its leadership is certain, and continues before it has noticed.
func TestTask_WritesNothingAfterLeaseDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		p := r.modelPod(r.pod("a", "web"))
		x := r.task(New(r.settings, r.policy, r.parts()), evictionOf(p, core.ByTaint))
		x.lock = &lock{leaseDuration: 15 * time.Second, renewed: time.Now()}
		r.until(15*time.Second - 1)
		if _, err := x.readPod(t.Context()); err != nil {
			t.Errorf("within the lease duration: got error %v", err)
		}
		r.until(15 * time.Second)
		if err := x.evict(t.Context()); !errors.Is(err, errNotLeading) || r.livePod("web") == nil {
			t.Errorf("after the lease duration: got error %v, want %v", err, errNotLeading)
		}
	})
}

// TestExecutor_RetriesFailures covers a term in which every write fails at first.
func TestExecutor_RetriesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b", "c"} {
			r.node(name)
		}
		r.pod("a", "web", tolerating(0))
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
		var mu sync.Mutex
		failed := map[string]int{}
		r.fault = func(q *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			what := q.Method + q.URL.Path
			if q.Method == http.MethodGet && q.URL.Query().Get("watch")+q.URL.Query().Get("resourceVersion") != "" || strings.Contains(what, "events") {
				return nil, nil
			}
			if failed[what]++; failed[what] <= 2 {
				return nil, errors.New("connection reset by peer")
			}
			return nil, nil
		}
		r.start()
		r.until(3 * time.Minute)
		if r.livePod("web") != nil {
			t.Error("the pod was not deleted")
		}
		if got := taintsOf(r.live("a")); got != "unreachable:NoSchedule unreachable:NoExecute" {
			t.Errorf("got taints %s", got)
		}
		if events := r.eventsOf("NodeNotReady", "TaintManagerEviction"); events != 3 {
			t.Errorf("got %d events, want 3: of the node, and of the mark and the eviction of its pod", events)
		}
		if got := r.lines("evict", "taint", "mark-unknown", "mark-not-ready"); strings.Count(got, "connection reset") < 6 {
			t.Errorf("got fewer than 6 reported failures:\n%s", got)
		}
	})
}

func TestExecutor_StopEndsAllTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.fault = hanging
		c := New(r.settings, r.policy, r.parts())
		c.term = &term{}
		e := newExecutor(t.Context(), c)
		for i := range 100 {
			e.add(&core.Action{Kind: core.ReadLease, Node: fmt.Sprint(i)})
			e.add(&core.Action{Kind: core.Evict, Node: "a", Pod: &model.Pod{Name: fmt.Sprint(i)}})
		}
		synctest.Wait()
		begun := time.Now()
		e.stop()
		if took := time.Since(begun); took != 0 {
			t.Errorf("the end took %s, want 0s", took)
		}
		if len(e.open) != 200 {
			t.Errorf("got %d open actions, want 200", len(e.open))
		}
	})
}

func TestExecutor_EndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.fault = hanging
		c := New(r.settings, r.policy, r.parts())
		ended := make(chan struct{})
		c.term = &term{ended: ended}
		e := newExecutor(t.Context(), c)
		e.add(&core.Action{Kind: core.ReadLease, Node: "a"})
		synctest.Wait()
		begun := time.Now()
		close(ended)
		e.wg.Wait()
		if took := time.Since(begun); took != 0 || !c.term.over() {
			t.Errorf("the end took %s, want 0s", took)
		}
	})
}

func TestBacklog_PreservesOrder(t *testing.T) {
	b := newBacklog()
	const n = 10_000
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan time.Duration, n)
	for range 8 {
		all.Go(func() {
			for {
				x, ok := b.next(ctx)
				if !ok {
					return
				}
				got <- x.waited
			}
		})
	}
	for i := range n {
		b.put(&task{waited: time.Duration(i)})
	}
	seen := map[time.Duration]bool{}
	for range n {
		seen[<-got] = true
	}
	cancel()
	all.Wait()
	if len(seen) != n {
		t.Errorf("got %d of %d tasks", len(seen), n)
	}
	for i := range 100 {
		b.put(&task{waited: time.Duration(i)})
	}
	for i := range 100 {
		if x, ok := b.next(t.Context()); !ok || x.waited != time.Duration(i) {
			t.Fatalf("task %d: got %v", i, x)
		}
	}
}
