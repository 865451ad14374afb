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

func TestObservingTellsEachDecisionOnceAndWritesNothing(t *testing.T) {
	for name, set := range map[string]func(*Settings){
		"observe": func(s *Settings) { s.Mode = Observe },
		"dry run": func(s *Settings) { s.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				set(&r.settings)
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web", tolerating(60))
				r.pod("a", "stays", func(p *corev1.Pod) {
					p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				})
				r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				r.start()
				r.until(20 * time.Minute)
				r.touch("a") // others change the node: decisions are not repeated
				r.until(40 * time.Minute)
				want := "50s mark-unknown a Ready=Unknown (NodeStatusUnknown), MemoryPressure=Unknown (NodeStatusUnknown), DiskPressure=Unknown (NodeStatusUnknown), PIDPressure=Unknown (NodeStatusUnknown)\n" +
					"50s taint a +node.kubernetes.io/unreachable:NoSchedule, +node.kubernetes.io/unreachable:NoExecute\n" +
					"50s mark-not-ready a default/stays\n50s mark-not-ready a default/web\n1m50s evict a default/web\n"
				if got := r.lines("mark-unknown", "taint", "mark-not-ready", "evict", "cancel"); got != want {
					t.Errorf("told:\n%snot\n%s", got, want)
				}
				if got := r.seenRequests(); len(got) != 1 || got[0] != "GET leases/a" {
					t.Errorf("it made the requests %v", got)
				}
				r.controllerSays(t, "a")
				r.comesBack("a") // its own heartbeat overrides the assumed state
				if got := r.lines("taint"); !strings.HasSuffix(got, "40m0s taint a -node.kubernetes.io/unreachable:NoSchedule, -node.kubernetes.io/unreachable:NoExecute\n") {
					t.Errorf("then it told:\n%s", got)
				}
			})
		})
	}
}

// touch changes a node without an effect on decisions.
func (r *rig) touch(name string) {
	r.with(func() {
		n := r.things["nodes"]["/"+name].DeepCopyObject().(*corev1.Node)
		n.Annotations = map[string]string{"k": time.Now().String()}
		r.store("nodes", n)
	})
}

func (r *rig) controllerSays(t *testing.T, node string) {
	t.Helper()
	e, err := r.controller.Explain(t.Context(), node)
	if err != nil || e.Ready != model.Unknown || e.Health != core.Unreachable || e.Pods != 1 {
		t.Errorf("it explains %+v (%v)", e, err)
	}
	for _, d := range r.decisions {
		if !d.Rehearsed {
			t.Errorf("it is not said to be rehearsed: %+v", d)
		}
	}
}

func taint(key string, effect model.Effect, added time.Time) model.Taint {
	return model.Taint{Key: key, Effect: effect, Added: added}
}

func TestWhatIsImaginedGivesWayToWhatIs(t *testing.T) {
	ready := func(n *model.Node, s model.Status, at time.Time) *model.Node {
		m := *n
		m.Conditions[model.Ready] = model.Condition{Status: s, Heartbeat: at, Transition: at}
		return &m
	}
	raw := ready(&model.Node{Name: "a", UID: "u", Taints: []model.Taint{taint("k", model.NoExecute, then)}, Pressures: []string{"plimsoll.dev/X"}}, model.True, then)
	later := then.Add(time.Minute)
	silence := &core.Action{Kind: core.MarkUnknown, Node: "a", Conditions: []core.UnknownCondition{{Type: model.Ready, Reason: "r"}}}
	swap := &core.Action{Kind: core.Taint, Node: "a", Add: []model.Taint{taint("l", model.NoExecute, later)}, Remove: []model.Taint{{Key: "k", Effect: model.NoExecute}}}
	back := &core.Action{Kind: core.Taint, Node: "a", Add: []model.Taint{taint("k", model.NoExecute, later)}, Remove: []model.Taint{{Key: "l", Effect: model.NoExecute}}}
	clear := &core.Action{Kind: core.CleanUpAgent, Node: "a"}
	tainted := func(n *model.Node, all ...model.Taint) *model.Node {
		m := *n
		m.Taints = all
		return &m
	}
	for name, c := range map[string]struct {
		actions   []*core.Action
		then      *model.Node // what the API server delivers next
		ready     model.Status
		taints    []model.Taint
		pressures int
	}{
		"nothing":                          {nil, raw, model.True, raw.Taints, 1},
		"silenced":                         {[]*core.Action{silence}, raw, model.Unknown, raw.Taints, 1},
		"silenced, and it reports":         {[]*core.Action{silence}, ready(raw, model.True, later), model.True, raw.Taints, 1},
		"silenced, by somebody else, too":  {[]*core.Action{silence}, ready(raw, model.Unknown, later), model.Unknown, raw.Taints, 1},
		"taints are swapped":               {[]*core.Action{swap}, raw, model.True, swap.Add, 1},
		"swapped and back":                 {[]*core.Action{swap, back}, raw, model.True, back.Add, 1},
		"the same was added by others":     {[]*core.Action{swap}, tainted(raw, taint("l", model.NoExecute, then)), model.True, []model.Taint{taint("l", model.NoExecute, then)}, 1},
		"what was taken away is set anew":  {[]*core.Action{swap}, tainted(raw, taint("k", model.NoExecute, later)), model.True, []model.Taint{taint("k", model.NoExecute, later), swap.Add[0]}, 1},
		"the agent's words are taken away": {[]*core.Action{clear}, raw, model.True, raw.Taints, 0},
		"another node of the name":         {[]*core.Action{silence, swap, clear}, func() *model.Node { m := *raw; m.UID = "v"; return &m }(), model.True, raw.Taints, 1},
	} {
		r := newRehearsal()
		for _, a := range c.actions {
			r.imagine(raw, a, later)
			r.node(raw)
		}
		got := r.node(c.then)
		if got.Conditions[model.Ready].Status != c.ready || len(got.Pressures) != c.pressures {
			t.Errorf("%s: the node is %+v", name, got)
		}
		if len(got.Taints) != len(c.taints) {
			t.Errorf("%s: the taints are %+v", name, got.Taints)
			continue
		}
		for i := range got.Taints {
			if got.Taints[i] != c.taints[i] {
				t.Errorf("%s: taint %d is %+v", name, i, got.Taints[i])
			}
		}
	}
	if raw.Taints[0].Key != "k" || raw.Conditions[model.Ready].Status != model.True {
		t.Error("what was observed was changed")
	}
}
