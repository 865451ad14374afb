package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// AgentFindings is the code of the findings that an agent reports in its lease.
const AgentFindings = "agent-findings"

// clusterRules are all rules for a cluster.
var clusterRules = []rule[ClusterFacts]{
	{Code{"two-lifecycle-controllers", Error, "The controller acts (--mode=replace) while kube-controller-manager's node-lifecycle or taint-eviction controller does: both taint nodes and evict pods.",
		"switch kube-controller-manager's off (append ,-node-lifecycle-controller,-taint-eviction-controller to its --controllers, default *), or run the controller with --mode=observe"},
		func(f *ClusterFacts) []trouble { return one(twoControllers(f)) }},
	{Code{"no-lifecycle-controller", Warning, "No controller detects lost nodes: pods of a dead node are not replaced.",
		"run the controller with --mode=replace, or enable node-lifecycle-controller and taint-eviction-controller in kube-controller-manager"},
		func(f *ClusterFacts) []trouble { return one(noController(f)) }},
	{Code{"lifecycle-controllers-unclear", Info, "The controller acts, and it is unknown whether kube-controller-manager's lifecycle controllers act too.",
		"check that --controllers of kube-controller-manager has -node-lifecycle-controller and -taint-eviction-controller; the controller itself only reports while another one writes"},
		func(f *ClusterFacts) []trouble { return one(unclearControllers(f)) }},
	{Code{AgentFindings, Error, "An agent has found errors on its node: unless they are accepted, no setting in the cluster arms it.",
		"run plimsoll doctor on the node; each finding has a remedy"},
		eachAgent(func(a *Agent) string {
			return in(len(a.Findings) > 0, "the agent found: "+listed(a.Findings))
		})},
	{Code{"agent-silent", Error, "An agent does not renew its lease: the node is protected by its kubelet alone.",
		"check why its pod does not run, or cannot reach the API server; without a pod, the DaemonSet does not select the node: docs/runbooks/PlimsollAgentAbsent.md"},
		eachAgent(func(a *Agent) string {
			return in(a.Expired(), fmt.Sprintf("the agent has not renewed its lease for %s; it lasts %s", a.Silent.Round(time.Second), a.Lasts))
		})},
	{Code{"no-agents", Error, "No node has an agent: all nodes are protected by their kubelets alone.",
		"check that the DaemonSet has pods, and that --heartbeat-namespace is the namespace of the agents' leases"},
		withoutAgents},
	{Code{"agent-missing", Warning, "A node has no agent.", "check that the DaemonSet tolerates the node's taints, and selects it"},
		withoutAgent},
	{Code{"pressure-unprotected", Warning, "A node is under pressure, and no agent acts there: its kubelet or the kernel chooses which processes end.",
		"find the reason in docs/how-to/troubleshoot.md (an agent does not arm), then kubectl plimsoll arm NODE; for an agent that is silent or missing see docs/runbooks/PlimsollAgentAbsent.md"},
		eachNode(unprotected)},
	{Code{"agents-not-armed", Info, "Agents do not act: they decide and report only.",
		"find the reason in docs/how-to/troubleshoot.md (an agent does not arm), then kubectl plimsoll arm NODE; arm --all leaves nodes alone that are disarmed by name"},
		notArmed},
	{Code{"agents-differ-in-version", Warning, "Agents are of different versions.", "wait for the rolling update to end, or check why it does not proceed"},
		func(f *ClusterFacts) []trouble {
			return one(differ(f, "versions", func(a *Agent) string { return a.Version }))
		}},
	{Code{"agents-differ-in-thresholds", Info, "Agents have different thresholds.", "check that this is intended, as for node pools of different sizes"},
		func(f *ClusterFacts) []trouble {
			return one(differ(f, "thresholds", func(a *Agent) string { return a.Thresholds }))
		}},
	{Code{"policy-missing", Warning, "No ValidatingAdmissionPolicy restricts agents to their own nodes: a stolen token of one can harm the others.",
		"apply deploy/admission, or install the chart with its admission policies"},
		func(f *ClusterFacts) []trouble {
			return when(f.Policies.Known && !slices.ContainsFunc(f.Policies.Value, func(name string) bool { return strings.HasSuffix(name, OwnNodePolicy) }), "no ValidatingAdmissionPolicy is bound with a name that ends in "+OwnNodePolicy)
		}},
	{Code{"node-repair-on-pressure", Warning, fmt.Sprintf("A health check repairs nodes that have been under pressure for less than %.0f min. A repair ends all pods of a node, an eviction one.", minRepairDelay.Minutes()),
		fmt.Sprintf("remove the conditions of pressure from the health check, or give them %.0f min or more", minRepairDelay.Minutes())},
		func(f *ClusterFacts) []trouble { return one(earlyRepairs(f)) }},
	{kubeletVersion,
		eachNode(func(n *Node) string { return untested(n.KubeletVersion) })},
	unknown("unknown-nodes", Warning, "the nodes and the leases of their agents", atCluster, func(f *ClusterFacts) string { return f.Nodes.missing() }),
	unknown("unknown-policies", Warning, "the admission policies", atCluster, func(f *ClusterFacts) string { return f.Policies.missing() }),
	unknown("unknown-lifecycle-controllers", Warning, "the lifecycle controllers", atCluster, func(f *ClusterFacts) string { return f.LifecycleControllers.missing() }),
	unknown("unknown-node-repair", Info, "the health checks that repair nodes", "set --kubeconfig for an account that may list machinehealthchecks and nodehealthchecks", func(f *ClusterFacts) string { return f.Repairs.missing() }),
	unknown("unknown-clock", Warning, "the API server's clock", atCluster, func(f *ClusterFacts) string { return f.Ahead.missing() }),
}

const atCluster = "check that the API server answers, and set --kubeconfig for an account that may list nodes, leases, pods and admission policies"

func in(so bool, what string) string {
	if !so {
		return ""
	}
	return what
}

// eachNode applies a rule to every node.
func eachNode(check func(*Node) string) func(*ClusterFacts) []trouble {
	return func(f *ClusterFacts) (found []trouble) {
		for i := range f.Nodes.Value {
			if what := check(&f.Nodes.Value[i]); what != "" {
				found = append(found, trouble{node: f.Nodes.Value[i].Name, what: what})
			}
		}
		return found
	}
}

// eachAgent applies a rule to every node that has an agent.
func eachAgent(check func(*Agent) string) func(*ClusterFacts) []trouble {
	return eachNode(func(n *Node) string {
		if n.Agent == nil {
			return ""
		}
		return check(n.Agent)
	})
}

// fewNames is the number of node names in a sentence.
const fewNames = 5

func someOf(names []string) string {
	if len(names) <= fewNames {
		return listed(names)
	}
	return fmt.Sprintf("%s and %d more", listed(names[:fewNames]), len(names)-fewNames)
}

func (f *ClusterFacts) names(of func(*Node) bool) (names []string) {
	for i := range f.Nodes.Value {
		if of(&f.Nodes.Value[i]) {
			names = append(names, f.Nodes.Value[i].Name)
		}
	}
	return names
}

func withoutAgents(f *ClusterFacts) []trouble {
	names := f.names(func(n *Node) bool { return n.Agent == nil })
	return when(len(names) > 0 && len(names) == len(f.Nodes.Value), fmt.Sprintf("none of %d nodes has an agent", len(names)))
}

func withoutAgent(f *ClusterFacts) []trouble {
	names := f.names(func(n *Node) bool { return n.Agent == nil })
	return when(len(names) > 0 && len(names) < len(f.Nodes.Value), fmt.Sprintf("%d of %d nodes have no agent: %s", len(names), len(f.Nodes.Value), someOf(names)))
}

// unprotected returns why no agent acts on a node under pressure.
func unprotected(n *Node) string {
	a, why := n.Agent, ""
	switch {
	case len(n.Pressure) == 0:
		return ""
	case a == nil:
		why = "the node has no agent"
	case a.Expired():
		why = "its agent is silent"
	case !a.Armed:
		why = cmp.Or(a.Reason, "its agent is not armed")
	default:
		return ""
	}
	return fmt.Sprintf("%s, and nothing is evicted by Plimsoll: %s", listed(n.Pressure), why)
}

func notArmed(f *ClusterFacts) []trouble {
	names := f.names(func(n *Node) bool { return n.Agent != nil && !n.Agent.Armed })
	if len(names) == 0 {
		return nil
	}
	var reasons []string
	for _, n := range f.Nodes.Value {
		if n.Agent != nil && !n.Agent.Armed && n.Agent.Reason != "" && !slices.Contains(reasons, n.Agent.Reason) {
			reasons = append(reasons, n.Agent.Reason)
		}
	}
	what := fmt.Sprintf("%d of %d nodes have an agent that does not act: %s", len(names), len(f.Nodes.Value), someOf(names))
	if len(reasons) > 0 {
		what += " (" + someOf(reasons) + ")"
	}
	return one(what)
}

// differ counts the agents by a property that should be equal.
func differ(f *ClusterFacts, what string, of func(*Agent) string) string {
	counts := map[string]int{}
	for _, n := range f.Nodes.Value {
		if n.Agent != nil {
			counts[of(n.Agent)]++
		}
	}
	if len(counts) < 2 {
		return ""
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, key := range keys {
		texts = append(texts, fmt.Sprintf("%s on %d", cmp.Or(key, "none"), counts[key]))
	}
	return fmt.Sprintf("agents of %d %s: %s", len(counts), what, someOf(texts))
}

// controllers returns the controllers of one side that act, and those of unknown state.
func (f *ClusterFacts) controllers(ours bool) (acting, unclear []LifecycleController) {
	for _, j := range f.LifecycleControllers.Value {
		switch {
		case j.Ours != ours:
		case !j.Acts.Known:
			unclear = append(unclear, j)
		case j.Acts.Value:
			acting = append(acting, j)
		}
	}
	return acting, unclear
}

func twoControllers(f *ClusterFacts) string {
	ours, _ := f.controllers(true)
	theirs, _ := f.controllers(false)
	if len(ours) == 0 || len(theirs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s acts (%s), and so does %s (%s)", ours[0].Name, ours[0].Why, theirs[0].Name, theirs[0].Why)
}

func unclearControllers(f *ClusterFacts) string {
	ours, _ := f.controllers(true)
	acting, unclear := f.controllers(false)
	if len(ours) == 0 || len(acting) > 0 || len(unclear) == 0 {
		return ""
	}
	return fmt.Sprintf("%s acts (%s); for %s it is unknown: %s", ours[0].Name, ours[0].Why, unclear[0].Name, unclear[0].Acts.Cause)
}

func noController(f *ClusterFacts) string {
	for _, j := range f.LifecycleControllers.Value {
		if !j.Acts.Known || j.Acts.Value {
			return ""
		}
	}
	if !f.LifecycleControllers.Known {
		return ""
	}
	return "neither the controller nor kube-controller-manager detects lost nodes"
}
