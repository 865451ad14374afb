package lifecycle

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/lifecycle/facts"
	"plimsoll.dev/plimsoll/lifecycle/fleet"
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
				r.touch("a") // others change the node: what was decided is not decided again
				r.until(40 * time.Minute)
				want := "50s silence a Ready=Unknown (NodeStatusUnknown), MemoryPressure=Unknown (NodeStatusUnknown), DiskPressure=Unknown (NodeStatusUnknown), PIDPressure=Unknown (NodeStatusUnknown)\n" +
					"50s taint a +node.kubernetes.io/unreachable:NoSchedule, +node.kubernetes.io/unreachable:NoExecute\n" +
					"50s mark-not-ready a default/stays\n50s mark-not-ready a default/web\n1m50s evict a default/web\n"
				if got := r.lines("silence", "taint", "mark-not-ready", "evict", "cancel"); got != want {
					t.Errorf("told:\n%snot\n%s", got, want)
				}
				if got := r.seenRequests(); len(got) != 1 || got[0] != "GET leases/a" {
					t.Errorf("it made the requests %v", got)
				}
				r.controllerSays(t, "a")
				r.comesBack("a") // its own heartbeat counts more than what was believed
				if got := r.lines("taint"); !strings.HasSuffix(got, "40m0s taint a -node.kubernetes.io/unreachable:NoSchedule, -node.kubernetes.io/unreachable:NoExecute\n") {
					t.Errorf("then it told:\n%s", got)
				}
			})
		})
	}
}

// touch changes something about a node that decides nothing.
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
	if err != nil || e.Ready != facts.Unknown || e.Verdict != fleet.Dead || e.Pods != 1 {
		t.Errorf("it explains %+v (%v)", e, err)
	}
	for _, d := range r.decisions {
		if !d.Rehearsed {
			t.Errorf("it is not said to be rehearsed: %+v", d)
		}
	}
}

func taint(key string, effect facts.Effect, added time.Time) facts.Taint {
	return facts.Taint{Key: key, Effect: effect, Added: added}
}

func TestWhatIsImaginedGivesWayToWhatIs(t *testing.T) {
	ready := func(n *facts.Node, s facts.Status, at time.Time) *facts.Node {
		m := *n
		m.Conditions[facts.Ready] = facts.Condition{Status: s, Heartbeat: at, Transition: at}
		return &m
	}
	raw := ready(&facts.Node{Name: "a", UID: "u", Taints: []facts.Taint{taint("k", facts.NoExecute, then)}, Pressures: []string{"plimsoll.dev/X"}}, facts.True, then)
	later := then.Add(time.Minute)
	silence := &fleet.Action{Kind: fleet.Silence, Node: "a", Conditions: []fleet.Silenced{{Type: facts.Ready, Reason: "r"}}}
	swap := &fleet.Action{Kind: fleet.Taint, Node: "a", Add: []facts.Taint{taint("l", facts.NoExecute, later)}, Remove: []facts.Taint{{Key: "k", Effect: facts.NoExecute}}}
	back := &fleet.Action{Kind: fleet.Taint, Node: "a", Add: []facts.Taint{taint("k", facts.NoExecute, later)}, Remove: []facts.Taint{{Key: "l", Effect: facts.NoExecute}}}
	clear := &fleet.Action{Kind: fleet.ClearAgent, Node: "a"}
	tainted := func(n *facts.Node, all ...facts.Taint) *facts.Node {
		m := *n
		m.Taints = all
		return &m
	}
	for name, c := range map[string]struct {
		actions   []*fleet.Action
		then      *facts.Node // what the API server tells next
		ready     facts.Status
		taints    []facts.Taint
		pressures int
	}{
		"nothing":                          {nil, raw, facts.True, raw.Taints, 1},
		"silenced":                         {[]*fleet.Action{silence}, raw, facts.Unknown, raw.Taints, 1},
		"silenced, and it reports":         {[]*fleet.Action{silence}, ready(raw, facts.True, later), facts.True, raw.Taints, 1},
		"silenced, by somebody else, too":  {[]*fleet.Action{silence}, ready(raw, facts.Unknown, later), facts.Unknown, raw.Taints, 1},
		"taints are swapped":               {[]*fleet.Action{swap}, raw, facts.True, swap.Add, 1},
		"swapped and back":                 {[]*fleet.Action{swap, back}, raw, facts.True, back.Add, 1},
		"the same was added by others":     {[]*fleet.Action{swap}, tainted(raw, taint("l", facts.NoExecute, then)), facts.True, []facts.Taint{taint("l", facts.NoExecute, then)}, 1},
		"what was taken away is set anew":  {[]*fleet.Action{swap}, tainted(raw, taint("k", facts.NoExecute, later)), facts.True, []facts.Taint{taint("k", facts.NoExecute, later), swap.Add[0]}, 1},
		"the agent's words are taken away": {[]*fleet.Action{clear}, raw, facts.True, raw.Taints, 0},
		"another node of the name":         {[]*fleet.Action{silence, swap, clear}, func() *facts.Node { m := *raw; m.UID = "v"; return &m }(), facts.True, raw.Taints, 1},
	} {
		r := newRehearsal()
		for _, a := range c.actions {
			r.imagine(raw, a, later)
			r.node(raw)
		}
		got := r.node(c.then)
		if got.Conditions[facts.Ready].Status != c.ready || len(got.Pressures) != c.pressures {
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
	if raw.Taints[0].Key != "k" || raw.Conditions[facts.Ready].Status != facts.True {
		t.Error("what was observed was changed")
	}
}
