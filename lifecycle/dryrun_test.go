package lifecycle

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

func TestDryRun_ReportsOnceAndWritesNothing(t *testing.T) {
	for name, set := range map[string]func(*Settings){
		"observe": func(s *Settings) { s.Mode = Observe },
		"dry run": func(s *Settings) { s.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				set(&r.settings)
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web", tolerating(60))
				r.pod("a", "stays", func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				})
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				r.start()
				r.until(20 * time.Minute)
				r.annotate("a") // others change the node: decisions are not repeated
				r.until(40 * time.Minute)
				want := "50s mark-unknown a Ready=Unknown (NodeStatusUnknown), MemoryPressure=Unknown (NodeStatusUnknown), DiskPressure=Unknown (NodeStatusUnknown), PIDPressure=Unknown (NodeStatusUnknown)\n" +
					"50s taint a +node.kubernetes.io/unreachable:NoSchedule, +node.kubernetes.io/unreachable:NoExecute\n" +
					"50s mark-not-ready a default/stays\n50s mark-not-ready a default/web\n1m50s evict a default/web\n"
				if got := r.lines("mark-unknown", "taint", "mark-not-ready", "evict", "cancel"); got != want {
					t.Errorf("got decisions:\n%swant:\n%s", got, want)
				}
				if got := r.seenRequests(); len(got) != 1 || got[0] != "GET leases/a" {
					t.Errorf("got requests %v, want one GET of the lease", got)
				}
				r.expectExplained(t, "a")
				r.expectRecovery("a") // its own heartbeat overrides the assumed state
				if got := r.lines("taint"); !strings.HasSuffix(got, "40m0s taint a -node.kubernetes.io/unreachable:NoSchedule, -node.kubernetes.io/unreachable:NoExecute\n") {
					t.Errorf("after the return got decisions:\n%s", got)
				}
			})
		})
	}
}

// annotate changes a node without an effect on decisions.
func (r *env) annotate(name string) {
	r.with(func() {
		n := r.objects["nodes"]["/"+name].DeepCopyObject().(*corev1.Node)
		n.Annotations = map[string]string{"k": time.Now().String()}
		r.store("nodes", n)
	})
}

func (r *env) expectExplained(t *testing.T, node string) {
	t.Helper()
	e, err := r.controller.Explain(t.Context(), node)
	if err != nil || e.Ready != model.Unknown || e.Health != core.Unreachable || e.Pods != 1 {
		t.Errorf("got explanation %+v, %v", e, err)
	}
	for _, d := range r.decisions {
		if !d.DryRun {
			t.Errorf("the decision is not marked as a dry run: %+v", d)
		}
	}
}
