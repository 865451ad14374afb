package doctor

import "time"

// ClusterFacts are the facts of a cluster, seen from outside of its nodes.
type ClusterFacts struct {
	Nodes                Fact[[]Node]
	Policies             Fact[[]string] // names of the ValidatingAdmissionPolicies with a binding
	LifecycleControllers Fact[[]LifecycleController]
	Repairs              Fact[[]Repair]
	Ahead                Fact[time.Duration] // how far the local clock is ahead of the API server's
}

// Node is a node of a cluster, with its agent according to the agent's lease.
type Node struct {
	Name           string
	KubeletVersion string   // empty: it has no kubelet
	Pressure       []string // conditions of pressure that are True, of the Node or in the agent's lease
	Agent          *Agent   // nil: no lease
}

// Agent is the state of an agent in its lease.
type Agent struct {
	Version    string
	Thresholds string // a digest, equal for equal thresholds
	Armed      bool
	Reason     string        // why it is armed or not
	Findings   []string      // codes of errors on its node
	Silent     time.Duration // since it renewed its lease
	Lasts      time.Duration // validity of a renewal
}

// Expired reports whether the agent's lease has expired: what the agent last wrote is not the state of its node.
func (a *Agent) Expired() bool { return a.Silent > a.Lasts }

// LifecycleController is a controller that determines which nodes are lost.
type LifecycleController struct {
	Name string // plimsoll-controller or kube-controller-manager
	Ours bool
	Acts Fact[bool] // it writes conditions and taints of nodes
	Why  string     // the evidence
}

// Repair is a condition of Nodes by which a health check replaces or restarts a node.
type Repair struct {
	By        string // KIND NAMESPACE/NAME of the health check
	Condition string // type of the condition, with status True
	After     time.Duration
}

// OwnNodePolicy is the end of the name of the ValidatingAdmissionPolicy that limits an agent to its
// node; the name of a chart's release precedes it.
const OwnNodePolicy = "agent-own-node"
