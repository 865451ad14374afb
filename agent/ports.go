package agent

import (
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
)

// Ports of a check. The agent has implementations for the kernel, a simulation has those for a
// scenario.

// Arming reports whether the agent may change anything, and why. It is safe for concurrent use.
type Arming interface {
	// Armed returns the state last received. It neither blocks nor allocates nor makes a system
	// call.
	Armed() (armed bool, why string)
	// Check is Armed after reading the disarm file on the node. It costs one or two system calls
	// and does not block.
	Check() (armed bool, why string)
}

// ErrDisarmed is returned by a [Victim] that was not touched. The victim checks the state last,
// and may observe a change before the loop does.
var ErrDisarmed = errors.New("the agent is disarmed")

// Observer measures the node. A periodic check fills in every signal, an early one at least those
// of memory. A signal that can not be measured is unknown, with its cause. Observe must not
// block.
type Observer interface {
	Observe(into *signals.Observations, kind signals.Kind)
}

// Notifier waits between checks. It carries no data: a notification only triggers a check.
type Notifier interface {
	// Wait returns at the given time, or earlier if a check is needed now, and returns the
	// sources of the wakeup. With park it may wait in the poller of Go's runtime, which costs
	// fewer wakeups; its end then needs an ordinary thread of the runtime. A Notifier with one
	// way to wait ignores park.
	Wait(until time.Time, park bool) signals.Wakes
	// Wake ends the present wait, or else the next one. It is safe for concurrent use.
	Wake()
	// Follow is called after every check with the observations and the lines. A line is crossed
	// when less than its amount is available. It must not block, and costs little if little has
	// changed.
	Follow(node *signals.Observations, lines []signals.Line)
}

// Stalls reports the pods that waited for memory.
type Stalls interface {
	// Stalls returns the stalls since the previous call, the longest first.
	Stalls() []signals.Stall
}

// Pods measures the node's active pods.
type Pods interface {
	Measure(ctx context.Context) []signals.Candidate
	// Stored returns the known local storage of the pods, including terminated ones. It reads no
	// file and costs little.
	Stored() []signals.Candidate
}

// Collector executes garbage collection beside the loop.
type Collector interface {
	// Collect collects garbage until there is enough, by its own observations, and otherwise
	// measures the disk usage of pods. It returns the kinds that ran, and ends early with ctx.
	Collect(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) []signals.Garbage
}

// ErrStopChoosing ends the choice of a check. Either the next pods would fail for the same
// reason, or the attempt has had an effect that must not be repeated for further pods.
var ErrStopChoosing = errors.New("no further pod is evicted in this check")

// EndsChoice reports whether an error ends the choice of a check.
func EndsChoice(err error) bool { return errors.Is(err, ErrStopChoosing) }

// Victims returns the Victim for an eviction.
type Victims interface {
	Victim(e *eviction.Eviction) (Victim, error)
}

// Victim is a pod to be evicted: all its processes, and its status in the API server. Immediate
// and Graceful return when the processes are gone, or when ctx ends.
type Victim interface {
	// Immediate reports the eviction to the API server, waiting until reporting ends. Then it sends
	// SIGKILL, and waits for the processes until wait has passed or waiting ends. A pod is killed
	// after a successful report even if ctx is cancelled.
	Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (EvictionResult, error)
	// Graceful ends the pod within the grace period.
	Graceful(ctx context.Context, grace time.Duration, change Changes) (EvictionResult, error)
	// Finish sends SIGKILL while an escalated Graceful still runs. Graceful stays responsible for
	// the status, and its result counts these processes.
	Finish(ctx context.Context) (EvictionResult, error)
}

// Changes are requests to a graceful eviction in flight.
type Changes struct {
	// Escalate is closed when the pod has to end at once.
	Escalate <-chan struct{}
	// Withdraw is closed when no pod has to end any more. A pod with a deletion in progress ends
	// nevertheless.
	Withdraw <-chan struct{}
}

// EvictionResult is the result of evicting one pod, or of a part of it. The pod was killed, has
// ended, or was not evicted at all: see Withdrawn.
type EvictionResult struct {
	Processes  int           // signalled
	SignalTime time.Duration // until the last SIGKILL was sent
	ExitTime   time.Duration // until no process was left
	// Status is the state of the report to the API server.
	Status     Status
	StatusTime time.Duration // until it was reported, or until the wait for it ended
	// Unmounting: the pod ran no process. Its memory is freed when its volumes are unmounted,
	// which follows from the status.
	Unmounting bool
	// Withdrawn: the pod was not evicted.
	Withdrawn bool
	// GivenUp: withdrawn, since it was not carried out in time.
	GivenUp bool
	// ProcessesRemain: processes with SIGKILL had not exited when ctx ended, and still hold their
	// memory. Rest, if set, is closed when they are gone. The agent also sets ProcessesRemain for
	// a pod that ended by itself, whose memory is still being freed.
	ProcessesRemain bool
	Rest            <-chan struct{}
}

// Inventory is refreshed between checks, when there is time.
type Inventory interface {
	Refresh(ctx context.Context)
}

// Status is the state of the report of an eviction to the API server.
type Status = decisionlog.Status

// The states of a report.
const (
	StatusNone     Status = "" // no report was needed
	StatusReported Status = "reported"
	StatusPending         = decisionlog.Pending // reported later
)
