package core_test

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

const unknown = "NodeStatusUnknown"

// fourUnknown returns the lines of a node without heartbeats.
func fourUnknown(at, node, reason string) (lines []string) {
	for _, t := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		lines = append(lines, at+" condition "+node+" "+t+" "+reason)
	}
	return lines
}

func TestMarkUnknown_AfterMissedHeartbeats(t *testing.T) {
	for _, c := range []struct {
		name     string
		scenario func(h *harness)
		want     []string
	}{
		{"node that never reported", func(h *harness) { h.neverReporting("a") },
			fourUnknown("60", "a", "NodeStatusNeverUpdated")},
		{"node with a lease but without a status", func(h *harness) {
			h.neverReporting("a")
			h.kubelets["a"].lease = true
			h.renewLease("a", 0)
		}, nil},
		{"node that renews both", func(h *harness) { h.node("a") }, nil},
		{"node that stops at once", func(h *harness) {
			h.node("a")
			h.at(0, func() { h.stop("a") })
		}, fourUnknown("40", "a", unknown)},
		{"only the lease renewed", func(h *harness) {
			h.node("a")
			h.at(second, func() { h.kubelets["a"].status = false })
		}, nil},
		{"only the status renewed", func(h *harness) {
			h.node("a")
			h.at(second, func() { h.kubelets["a"].lease = false })
			for s := 30; s < 200; s += 30 {
				h.at(time.Duration(s)*second, func() { h.report("a", func(*model.Node) {}) })
			}
		}, fourUnknown("220", "a", unknown)},
		{"no lease and an old status", func(h *harness) {
			h.node("a")
			h.at(second, func() {
				h.stop("a")
				delete(h.leases, "a")
				h.fleet.Unleased("a", h.now)
			})
		}, fourUnknown("40", "a", unknown)},
		{"missing condition", func(h *harness) {
			h.node("a", func(n *model.Node) { n.Conditions[model.PIDPressure] = model.Condition{} })
			h.at(0, func() { h.stop("a") })
		}, append(fourUnknown("40", "a", unknown)[:3], "40 condition a PIDPressure NodeStatusNeverUpdated")},
		{"condition already Unknown", func(h *harness) {
			h.node("a", func(n *model.Node) { n.Conditions[model.PIDPressure].Status = model.Unknown })
			h.at(0, func() { h.stop("a") })
		}, fourUnknown("40", "a", unknown)[:3]},
		{"clock set back and forth", func(h *harness) {
			h.node("a")
			h.at(15*second, func() { h.kubelets["a"].skew = -time.Hour })
			h.at(75*second, func() { h.kubelets["a"].skew = time.Hour })
		}, nil},
		{"recreated node", func(h *harness) {
			h.node("a")
			h.at(15*second, func() { h.stop("a") })
			h.at(45*second, func() {
				h.deleteNode("a")
				h.node("a")
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("other")
			c.scenario(h)
			h.run(250 * second)
			h.expect("condition", c.want...)
		})
	}
}

func TestMarkUnknown_OnceUntilNodeReports(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.at(15*second, func() { h.stop("a") })
	// A resumed lease does not change the conditions of the status; then the node is silent
	// again.
	h.at(100*second, func() {
		h.kubelets["a"].lease = true
		h.renewLease("a", h.kubelets["a"].generation)
	})
	h.at(125*second, func() { h.stop("a") })
	h.at(400*second, func() { h.resume("a") })
	h.run(600 * second)
	h.expect("condition", fourUnknown("50", "a", unknown)...)
	h.expect("taint", "50 taint a +unreachable:NoSchedule", "50 taint a +unreachable:NoExecute",
		"400 taint a -unreachable:NoSchedule", "400 taint a -unreachable:NoExecute")
}

func TestMarkUnknown_WithdrawnByHeartbeatBeforeWrite(t *testing.T) {
	for name, back := range map[string]func(h *harness){
		"node that renews both": func(h *harness) { h.resume("a") },
		"renewed lease": func(h *harness) {
			h.kubelets["a"].lease = true
			h.renewLease("a", h.kubelets["a"].generation)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			h.faults = func(*fleetAction) fault { return fault{carried: 5 * second} }
			h.at(15*second, func() { h.stop("a") })
			h.at(52*second, func() { back(h) })
			h.run(100 * second)
			if n := h.nodes["a"]; n.Conditions[model.Ready].Status != model.True || len(n.Taints) > 0 {
				t.Errorf("got Ready %v and taints %v, want True and none", n.Conditions[model.Ready].Status, n.Taints)
			}
			if e := h.fleet.Explain("a", h.now); e.Ready != model.True || !e.Since.IsZero() {
				t.Errorf("Explain: got Ready %v since %v, want True", e.Ready, e.Since)
			}
		})
	}
}

func TestTaint_FollowsConditions(t *testing.T) {
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
		{"Unknown reported by the node", set(model.Ready, model.Unknown), []string{"5 taint a +unreachable:NoSchedule", "5 taint a +unreachable:NoExecute"}},
		{"without Ready", set(model.Ready, model.Absent), nil},
		{"network unavailable", set(model.NetworkUnavailable, model.True), []string{"5 taint a +network-unavailable:NoSchedule"}},
		{"network available", set(model.NetworkUnavailable, model.False), nil},
		{"memory pressure", set(model.MemoryPressure, model.True), []string{"5 taint a +memory-pressure:NoSchedule"}},
		{"cordoned", func(n *model.Node) { n.Unschedulable = true }, []string{"5 taint a +unschedulable:NoSchedule"}},
		{"unfounded taint", func(n *model.Node) {
			n.Taints = []model.Taint{{Key: model.KeyDiskPressure, Effect: model.NoSchedule}, {Key: "mine", Effect: model.NoSchedule}}
		}, []string{"5 taint a -disk-pressure:NoSchedule"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, taintMode())
			h.node("a")
			h.node("b")
			h.at(5*second, func() { h.report("a", c.change) })
			h.run(30 * second)
			h.expect("taint", c.want...)
		})
	}
}

func TestTaint_CopiesStableLabelsToBetaLabels(t *testing.T) {
	is := func(v string) model.Label { return model.Label{Value: v, Is: true} }
	h := newHarness(t, taintMode())
	h.node("none")
	h.node("created", func(n *model.Node) { n.Labels.OS, n.Labels.Arch = is("linux"), is("arm64") })
	h.node("corrected", func(n *model.Node) { n.Labels.OS, n.Labels.OldOS = is("linux"), is("windows") })
	h.node("without a stable one", func(n *model.Node) { n.Labels.OldOS = is("windows") })
	h.run(30 * second)
	h.expect("label", "0 label corrected beta.kubernetes.io/os=linux",
		"0 label created beta.kubernetes.io/arch=arm64", "0 label created beta.kubernetes.io/os=linux")
}

func TestReportEvent_CoversNodeLifecycle(t *testing.T) {
	h := newHarness(t, taintMode())
	h.node("a")
	h.node("b")
	h.at(10*second, func() { h.ready("a", model.False) })
	h.at(20*second, func() { h.deleteNode("a") })
	h.run(30 * second)
	h.expect("event", "0 event a RegisteredNode", "0 event b RegisteredNode", "10 event a NodeNotReady", "20 event a RemovingNode")
	if n := h.events[0].Object; n == nil || n.UID != "a@0s" {
		t.Errorf("RegisteredNode: got object %+v", n)
	}
}
