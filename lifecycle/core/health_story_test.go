package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

const unknown = "NodeStatusUnknown"

// fourUnknown returns the lines of a node that falls silent.
func fourUnknown(at, node, reason string) (lines []string) {
	for _, t := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		lines = append(lines, at+" condition "+node+" "+t+" "+reason)
	}
	return lines
}

func TestWhatMakesANodeUnknown(t *testing.T) {
	for _, c := range []struct {
		name  string
		story func(w *world)
		want  []string
	}{
		{"it never reported, until its startup grace is over", func(w *world) { w.silentFromBirth("a") },
			fourUnknown("60", "a", "NodeStatusNeverUpdated")},
		{"it never reported, but its lease is renewed", func(w *world) {
			w.silentFromBirth("a")
			w.beats["a"].lease = true
			w.renewLease("a", 0)
		}, nil},
		{"it renews both", func(w *world) { w.node("a") }, nil},
		{"it stopped at once", func(w *world) {
			w.node("a")
			w.at(0, func() { w.stop("a") })
		}, fourUnknown("40", "a", unknown)},
		{"its lease alone is renewed", func(w *world) {
			w.node("a")
			w.at(second, func() { w.beats["a"].status = false })
		}, nil},
		{"its status alone is renewed", func(w *world) {
			w.node("a")
			w.at(second, func() { w.beats["a"].lease = false })
			for s := 30; s < 200; s += 30 {
				w.at(time.Duration(s)*second, func() { w.report("a", func(*model.Node) {}) })
			}
		}, fourUnknown("220", "a", unknown)},
		{"it has no lease, and its status is old", func(w *world) {
			w.node("a")
			w.at(second, func() {
				w.stop("a")
				delete(w.leases, "a")
				w.fleet.Unleased("a", w.now)
			})
		}, fourUnknown("40", "a", unknown)},
		{"one that lacks a condition gets it", func(w *world) {
			w.node("a", func(n *model.Node) { n.Conditions[model.PIDPressure] = model.Condition{} })
			w.at(0, func() { w.stop("a") })
		}, append(fourUnknown("40", "a", unknown)[:3], "40 condition a PIDPressure NodeStatusNeverUpdated")},
		{"one that is Unknown already stays as it is", func(w *world) {
			w.node("a", func(n *model.Node) { n.Conditions[model.PIDPressure].Status = model.Unknown })
			w.at(0, func() { w.stop("a") })
		}, fourUnknown("40", "a", unknown)[:3]},
		{"its clock was put back, and forth", func(w *world) {
			w.node("a")
			w.at(15*second, func() { w.beats["a"].skew = -time.Hour })
			w.at(75*second, func() { w.beats["a"].skew = time.Hour })
		}, nil},
		{"a node of its name was deleted before", func(w *world) {
			w.node("a")
			w.at(15*second, func() { w.stop("a") })
			w.at(45*second, func() {
				w.deleteNode("a")
				w.node("a")
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("other")
			c.story(w)
			w.run(250 * second)
			w.expect("condition", c.want...)
		})
	}
}

func TestASilentNodeIsUnknownOnceUntilItReports(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.at(15*second, func() { w.stop("a") })
	// A resumed lease does not change the conditions of the status; then the node is silent
	// again.
	w.at(100*second, func() {
		w.beats["a"].lease = true
		w.renewLease("a", w.beats["a"].life)
	})
	w.at(125*second, func() { w.stop("a") })
	w.at(400*second, func() { w.resume("a") })
	w.run(600 * second)
	w.expect("condition", fourUnknown("50", "a", unknown)...)
	w.expect("taint", "50 taint a +unreachable:NoSchedule", "50 taint a +unreachable:NoExecute",
		"400 taint a -unreachable:NoSchedule", "400 taint a -unreachable:NoExecute")
}

func TestARenewalBeforeTheWriteIsDoneUndoesTheVerdict(t *testing.T) {
	for name, back := range map[string]func(w *world){
		"it renews both": func(w *world) { w.resume("a") },
		"its lease": func(w *world) {
			w.beats["a"].lease = true
			w.renewLease("a", w.beats["a"].life)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			w.faults = func(*fleetAction) fault { return fault{carried: 5 * second} }
			w.at(15*second, func() { w.stop("a") })
			w.at(52*second, func() { back(w) })
			w.run(100 * second)
			if n := w.nodes["a"]; n.Conditions[model.Ready].Status != model.True || len(n.Taints) > 0 {
				t.Errorf("Ready is %v, tainted: %v", n.Conditions[model.Ready].Status, n.Taints)
			}
			if e := w.fleet.Explain("a", w.now); e.Ready != model.True || !e.Since.IsZero() {
				t.Errorf("it counts as %v since %v", e.Ready, e.Since)
			}
		})
	}
}

func TestTaintsFollowConditions(t *testing.T) {
	set := func(c model.ConditionType, s model.Status) func(*model.Node) {
		return func(n *model.Node) { n.Conditions[c].Status = s }
	}
	for _, c := range []struct {
		name   string
		change func(*model.Node)
		want   []string
	}{
		{"healthy", func(*model.Node) {}, nil},
		{"not ready", set(model.Ready, model.False), []string{"5 taint a +not-ready:NoSchedule", "5 taint a +not-ready:NoExecute"}},
		{"it does not know itself", set(model.Ready, model.Unknown), []string{"5 taint a +unreachable:NoSchedule", "5 taint a +unreachable:NoExecute"}},
		{"without Ready", set(model.Ready, model.Absent), nil},
		{"network", set(model.NetworkUnavailable, model.True), []string{"5 taint a +network-unavailable:NoSchedule"}},
		{"network is there", set(model.NetworkUnavailable, model.False), nil},
		{"memory", set(model.MemoryPressure, model.True), []string{"5 taint a +memory-pressure:NoSchedule"}},
		{"cordoned", func(n *model.Node) { n.Unschedulable = true }, []string{"5 taint a +unschedulable:NoSchedule"}},
		{"a taint that nothing calls for", func(n *model.Node) {
			n.Taints = []model.Taint{{Key: model.KeyDiskPressure, Effect: model.NoSchedule}, {Key: "mine", Effect: model.NoSchedule}}
		}, []string{"5 taint a -disk-pressure:NoSchedule"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, taintMode())
			w.node("a")
			w.node("b")
			w.at(5*second, func() { w.report("a", c.change) })
			w.run(30 * second)
			w.expect("taint", c.want...)
		})
	}
}

func TestOldLabelsFollowTheStableOnes(t *testing.T) {
	is := func(v string) model.Label { return model.Label{Value: v, Is: true} }
	w := newWorld(t, taintMode())
	w.node("none")
	w.node("created", func(n *model.Node) { n.Labels.OS, n.Labels.Arch = is("linux"), is("arm64") })
	w.node("corrected", func(n *model.Node) { n.Labels.OS, n.Labels.OldOS = is("linux"), is("windows") })
	w.node("without a stable one", func(n *model.Node) { n.Labels.OldOS = is("windows") })
	w.run(30 * second)
	w.expect("label", "0 label corrected beta.kubernetes.io/os=linux",
		"0 label created beta.kubernetes.io/arch=arm64", "0 label created beta.kubernetes.io/os=linux")
}

func TestEventsOfNodes(t *testing.T) {
	w := newWorld(t, taintMode())
	w.node("a")
	w.node("b")
	w.at(10*second, func() { w.ready("a", model.False) })
	w.at(20*second, func() { w.deleteNode("a") })
	w.run(30 * second)
	w.expect("event", "0 event a RegisteredNode", "0 event b RegisteredNode", "10 event a NodeNotReady", "20 event a RemovingNode")
	if n := w.told[0].Object; n == nil || n.UID != "a@0s" {
		t.Errorf("RegisteredNode is about %+v", n)
	}
}
