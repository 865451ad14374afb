package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Policy configures a Fleet. It is not validated here.
//
// Kubernetes has had these modes: NoExecute and TaintEvictions since 1.18;
// LegacyEvictions alone in 1.18 without its taint manager; LegacyEvictions and
// TaintEvictions in 1.16 without the gate TaintBasedEvictions; NoExecute alone in 1.16
// with that gate and without its taint manager.
type Policy struct {
	Health       heartbeat.Policy
	Confirmation confirm.Policy
	Zones        zones.Policy
	Agents       agents.Policy

	// NoExecute: nodes that are not ready or unreachable are tainted NoExecute at the
	// rate of their zone.
	NoExecute bool
	// TaintEvictions: NoExecute taints of any key evict the pods that do not tolerate
	// them.
	TaintEvictions bool
	// LegacyEvictions: all pods of a node but those of DaemonSets are evicted
	// PodEvictionTimeout after it became unready, at the rate of its zone.
	LegacyEvictions    bool
	PodEvictionTimeout time.Duration

	// MaxAutonomy caps model.Node.Autonomy; 0: no node is autonomous.
	MaxAutonomy time.Duration
	// AgentAliveGrace is how long a live agent blocks NoExecute taints and legacy
	// evictions of a node with a silent kubelet; 0: agents do not count.
	AgentAliveGrace time.Duration
	// MaxUnhealthy is the number of unready nodes above which no further one is
	// tainted NoExecute, and no eviction for such a taint begins.
	MaxUnhealthy Bound
	// MaxUnhealthyCooldown is how long that lasts after the count is back within its bound.
	MaxUnhealthyCooldown time.Duration
	// PauseDisrupted: evictions for not-ready and unreachable taints wait while the
	// node's zone is partially or fully disrupted.
	PauseDisrupted bool
	// UntaintRate is the rate at which nodes are untainted after the breaker of
	// Evidence was open, until none is left that waits for that; 0: all at once.
	UntaintRate float64
	// EvictedPodTTL is how long the object of a pod exists after the agent of its node
	// evicted it (model.Pod.Evicted); 0: forever.
	EvictedPodTTL time.Duration
}

// Bound is a number of nodes, or a share of all nodes.
type Bound struct {
	Nodes   int
	Percent float64 // 0 to 1; above 0 it is what counts, not Nodes
	Set     bool    // false: there is no bound
}

// exceeded reports whether this many of all nodes are more than the bound allows.
func (b Bound) exceeded(nodes, of int) bool {
	switch {
	case !b.Set:
		return false
	case b.Percent > 0:
		return float64(nodes) > b.Percent*float64(of)
	default:
		return nodes > b.Nodes
	}
}
