package doctor

import "time"

// ClusterFacts are what is known of a cluster from outside of its nodes.
type ClusterFacts struct {
	Nodes    Fact[[]Node]
	Policies Fact[[]string] // names of the ValidatingAdmissionPolicies that are bound
	Judges   Fact[[]Judge]
	Ahead    Fact[time.Duration] // how far the clock here is ahead of the API server's
}

// A Node is one of a cluster, with its agent as the agent's lease tells.
type Node struct {
	Name           string
	KubeletVersion string // empty: it has no kubelet
	Agent          *Agent // nil: no lease
}

// An Agent is what the lease of one says.
type Agent struct {
	Version    string
	Thresholds string // a digest, equal for equal thresholds
	Armed      bool
	Reason     string        // why it is armed or not
	Findings   []string      // codes of errors that it found on its node
	Silent     time.Duration // since it renewed its lease
	Lasts      time.Duration // how long a renewal is good for
}

// A Judge is a controller that says which nodes are lost.
type Judge struct {
	Name string // plimsoll-controller or kube-controller-manager
	Ours bool
	Acts Fact[bool] // it writes conditions and taints of nodes
	Why  string     // by what this was found
}

// OwnNodePolicy ends the name of the ValidatingAdmissionPolicy that bounds an agent
// to its node; what a chart calls itself comes before it.
const OwnNodePolicy = "agent-own-node"
