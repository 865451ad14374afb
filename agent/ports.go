package agent

import (
	"context"
	"time"

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

// Victims finds what there is to kill of a pod.
type Victims interface {
	Victim(pod *signal.Pod) (Victim, error)
}

// A Victim is all processes of one pod. Both ways return when the processes are
// gone, or when ctx ends.
type Victim interface {
	// Immediate sends SIGKILL at once.
	Immediate(ctx context.Context) (Killed, error)
	// Graceful sends SIGTERM, and SIGKILL after the grace period, or as soon as
	// hurry is closed.
	Graceful(ctx context.Context, grace time.Duration, hurry <-chan struct{}) (Killed, error)
}

// Killed is what a kill did.
type Killed struct {
	Processes int           // signalled
	ToSignal  time.Duration // until the last SIGKILL was sent
	ToEmpty   time.Duration // until no process was left
	// Lingering processes have got their signal but were not gone when ctx
	// ended; they still hold their memory.
	Lingering bool
}

// An Inventory is brought up to date between looks, when there is time.
type Inventory interface {
	Refresh(ctx context.Context)
}
