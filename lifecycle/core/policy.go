package core

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/agents"
	"plimsoll.dev/plimsoll/lifecycle/confirm"
	"plimsoll.dev/plimsoll/lifecycle/heartbeat"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Policy is by what a fleet decides. It is taken as it is: who reads it from
// users has validated it.
//
// The modes that there ever were: NoExecute and TaintEvictions is what Kubernetes
// does since 1.18; LegacyEvictions alone is 1.18 without its taint manager;
// LegacyEvictions and TaintEvictions is 1.16 without the gate TaintBasedEvictions;
// NoExecute alone is 1.16 with that gate and without its taint manager.
type Policy struct {
	Health   heartbeat.Policy
	Evidence confirm.Policy
	Zones    zones.Policy
	Agents   agents.Policy

	// NoExecute: nodes that are not ready, or not heard of, are tainted NoExecute
	// at the rate of their zone.
	NoExecute bool
	// TaintEvictions: pods are evicted by NoExecute taints of any key, as far as
	// they do not tolerate them.
	TaintEvictions bool
	// LegacyEvictions: all pods of a node but those of DaemonSets are evicted
	// PodEvictionTimeout after it died, at the rate of its zone.
	LegacyEvictions    bool
	PodEvictionTimeout time.Duration

	// AutonomyLongest caps facts.Node.Autonomy; 0: nobody is autonomous.
	AutonomyLongest time.Duration
	// SecondOpinion is how long a living agent keeps a node whose kubelet is silent
	// from NoExecute taints and legacy eviction; 0: agents are not asked.
	SecondOpinion time.Duration
	// MostUnhealthy is how many nodes may be unready before none is tainted
	// NoExecute any more, and no eviction for such a taint begins.
	MostUnhealthy Bound
	// StormCooldown is how long that stays so when the count is back in its bound.
	StormCooldown time.Duration
	// PauseDisrupted: evictions for not-ready and unreachable taints wait while the
	// node's zone is partially or fully disrupted.
	PauseDisrupted bool
	// RecoveriesPerSecond is how many nodes get rid of their NoExecute taints each
	// second after the breaker of Evidence was open, until none is left that waits
	// for it; 0: all at once.
	RecoveriesPerSecond float64
	// EvictedPodTTL is how long the object of a pod is kept that the agent of its node
	// evicted (facts.Pod.Evicted); 0: for ever.
	EvictedPodTTL time.Duration
}

// A Bound is a number of nodes, or a share of those that there are.
type Bound struct {
	Nodes   int
	Percent float64 // 0 to 1; above 0 it is what counts, not Nodes
	Set     bool    // false: there is no bound
}

// exceeded reports whether so many of all are more than the bound allows.
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
