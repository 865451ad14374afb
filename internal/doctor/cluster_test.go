package doctor_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/doctor"
)

func healthyCluster() doctor.ClusterFacts {
	agent := func() *doctor.Agent {
		return &doctor.Agent{Version: "v1", Thresholds: "abc", Armed: true, Silent: 9 * time.Second, Lasts: 40 * time.Second}
	}
	return doctor.ClusterFacts{
		Nodes: doctor.Known([]doctor.Node{
			{Name: "a", KubeletVersion: "v1.37.1", Agent: agent()}, {Name: "b", KubeletVersion: "v1.35.0+k3s1", Agent: agent()}, {Name: "bare", Agent: agent()}}),
		Policies: doctor.Known([]string{"plimsoll-agent-own-node"}),
		LifecycleControllers: doctor.Known([]doctor.LifecycleController{{Name: "plimsoll-controller", Ours: true, Acts: doctor.Known(true), Why: "--mode"},
			{Name: "kube-controller-manager", Acts: doctor.Known(false), Why: "--controllers"}}),
		Repairs: doctor.Known([]doctor.Repair{{By: "MachineHealthCheck a/b", Condition: "Ready", After: time.Minute},
			{By: "MachineHealthCheck a/b", Condition: "DiskPressure", After: 30 * time.Minute}}),
		Ahead: doctor.Known(time.Duration(0)),
	}
}

func TestExamineCluster_ReportsEachFinding(t *testing.T) {
	covered := map[string]bool{"pressure-unprotected": true} // by TestExamineCluster_PressureWithoutActingAgent
	for i, p := range []struct {
		codes, node, text string
		apply             func(*doctor.ClusterFacts)
	}{
		{"", "", "", func(*doctor.ClusterFacts) {}},
		{"two-lifecycle-controllers", "", "kube-controller-manager (--controllers)", func(f *doctor.ClusterFacts) { f.LifecycleControllers.Value[1].Acts = doctor.Known(true) }},
		{"", "", "", func(f *doctor.ClusterFacts) { // only the upstream one
			f.LifecycleControllers.Value[0].Acts, f.LifecycleControllers.Value[1].Acts = doctor.Known(false), doctor.Known(true)
		}},
		{"lifecycle-controllers-unclear", "", "no visible pod", func(f *doctor.ClusterFacts) {
			f.LifecycleControllers.Value[1].Acts = doctor.Unknown[bool]("no visible pod")
		}},
		{"no-lifecycle-controller", "", "", func(f *doctor.ClusterFacts) { f.LifecycleControllers.Value = nil }},
		{"no-lifecycle-controller", "", "", func(f *doctor.ClusterFacts) { f.LifecycleControllers.Value[0].Acts = doctor.Known(false) }},
		{"agent-findings", "b", "right-missing, swap-on", func(f *doctor.ClusterFacts) { f.Nodes.Value[1].Agent.Findings = []string{"right-missing", "swap-on"} }},
		{"agent-silent", "a", "has not renewed its lease for 1m0s", func(f *doctor.ClusterFacts) { f.Nodes.Value[0].Agent.Silent = time.Minute }},
		{"agent-missing", "", "1 of 3 nodes have no agent: b", func(f *doctor.ClusterFacts) { f.Nodes.Value[1].Agent = nil }},
		{"no-agents", "", "none of 3 nodes has an agent", func(f *doctor.ClusterFacts) {
			for i := range f.Nodes.Value {
				f.Nodes.Value[i].Agent = nil
			}
		}},
		{"", "", "", func(f *doctor.ClusterFacts) { f.Nodes.Value = nil }},
		{"agents-not-armed", "", "2 of 3 nodes have an agent that does not act: a, b (by flag)", func(f *doctor.ClusterFacts) {
			for i := range 2 {
				f.Nodes.Value[i].Agent.Armed, f.Nodes.Value[i].Agent.Reason = false, "by flag"
			}
		}},
		{"agents-differ-in-version", "", "v1 on 2, v2 on 1", func(f *doctor.ClusterFacts) { f.Nodes.Value[0].Agent.Version = "v2" }},
		{"agents-differ-in-thresholds", "", "abc on 2, none on 1", func(f *doctor.ClusterFacts) { f.Nodes.Value[0].Agent.Thresholds = "" }},
		{"policy-missing", "", "agent-own-node", func(f *doctor.ClusterFacts) { f.Policies = doctor.Known([]string{"another"}) }},
		{"kubelet-version", "a", "v1.30.4", func(f *doctor.ClusterFacts) { f.Nodes.Value[0].KubeletVersion = "v1.30.4" }},
		{"node-repair-on-pressure", "", "MachineHealthCheck a/b repairs a node after 29m59s of DiskPressure", func(f *doctor.ClusterFacts) { f.Repairs.Value[1].After -= time.Second }},
		{"node-repair-on-pressure", "", "after 5m0s of plimsoll.dev/MemoryPressure", func(f *doctor.ClusterFacts) {
			f.Repairs.Value[0] = doctor.Repair{By: "NodeHealthCheck c", Condition: "plimsoll.dev/MemoryPressure", After: 5 * time.Minute}
		}},
		{"unknown-node-repair", "", "forbidden", func(f *doctor.ClusterFacts) { f.Repairs.Known, f.Repairs.Cause = false, "forbidden" }},
		{"unknown-nodes", "", "EIO", func(f *doctor.ClusterFacts) { f.Nodes = doctor.Unknown[[]doctor.Node]("EIO") }},
		{"unknown-policies", "", "EIO", func(f *doctor.ClusterFacts) { f.Policies = doctor.Unknown[[]string]("EIO") }},
		{"unknown-lifecycle-controllers", "", "EIO", func(f *doctor.ClusterFacts) {
			f.LifecycleControllers = doctor.Unknown[[]doctor.LifecycleController]("EIO")
		}},
		{"unknown-clock", "", "EIO", func(f *doctor.ClusterFacts) { f.Ahead = doctor.Unknown[time.Duration]("EIO") }},
	} {
		f := healthyCluster()
		p.apply(&f)
		found := doctor.ExamineCluster(f)
		if got := codesOf(found); got != p.codes {
			t.Errorf("variant %d: found %q, want %q: %+v", i, got, p.codes, found)
			continue
		}
		covered[p.codes] = true
		for _, x := range found {
			if x.Node != p.node || !strings.Contains(x.What, p.text) || x.Remedy == "" {
				t.Errorf("variant %d: %+v, want node %q and text with %q", i, x, p.node, p.text)
			}
		}
	}
	for _, c := range doctor.ClusterCodes() {
		if !covered[c.Code] {
			t.Errorf("no test case for %s", c.Code)
		}
	}
}

// Pressure is a finding of its own where no agent acts, beside the reason why it does not.
func TestExamineCluster_PressureWithoutActingAgent(t *testing.T) {
	for why, change := range map[string]func(*doctor.Node){
		"by flag":               func(n *doctor.Node) { n.Agent.Armed, n.Agent.Reason = false, "by flag" },
		"its agent is silent":   func(n *doctor.Node) { n.Agent.Silent = time.Minute },
		"the node has no agent": func(n *doctor.Node) { n.Agent = nil },
		"":                      func(*doctor.Node) {}, // its agent acts
	} {
		f := healthyCluster()
		f.Nodes.Value[0].Pressure = []string{"MemoryPressure"}
		change(&f.Nodes.Value[0])
		var found []doctor.Finding
		for _, x := range doctor.ExamineCluster(f) {
			if x.Code == "pressure-unprotected" {
				found = append(found, x)
			}
		}
		if why == "" && len(found) > 0 {
			t.Errorf("found %+v beside an agent that acts", found)
		}
		if why != "" && (len(found) != 1 || found[0].Node != "a" || found[0].Severity != doctor.Warning || found[0].What != "MemoryPressure, and nothing is evicted by Plimsoll: "+why) {
			t.Errorf("found %+v, want %q", found, why)
		}
	}
}

func TestExamineCluster_AbbreviatesNodeList(t *testing.T) {
	f := healthyCluster()
	for _, name := range strings.Fields("c d e f g h") {
		f.Nodes.Value = append(f.Nodes.Value, doctor.Node{Name: name})
	}
	found := doctor.ExamineCluster(f)
	if len(found) != 1 || !strings.HasSuffix(found[0].What, "6 of 9 nodes have no agent: c, d, e, f, g and 1 more") {
		t.Errorf("%+v", found)
	}
}
