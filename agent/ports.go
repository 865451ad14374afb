package agent

import (
	"context"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// The ports are what a cycle needs of the world. The agent is handed
// implementations that speak to the kernel; a rehearsal, ones that speak to a
// scenario.

// An Observer measures the node. A regular look fills in every signal, an extra
// one at least those of memory; what can not be measured is unknown, with its
// cause. It must not wait for anything.
type Observer interface {
	Observe(into *signal.Observations, kind signal.Kind)
}

// Pods measures the node's active pods.
type Pods interface {
	Measure(ctx context.Context) []signal.Candidate
}

// A Reclaimer collects node-level waste and returns what ran, in order.
type Reclaimer interface {
	Reclaim(ctx context.Context, what []signal.Reclaimer) []signal.Reclaimer
}

// A Killer ends one pod. An error means that the pod was not evicted.
type Killer interface {
	Kill(ctx context.Context, e *eviction.Eviction) error
}
