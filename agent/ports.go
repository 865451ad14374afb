package agent

import (
	"context"
	"errors"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// The ports are what a cycle needs of the world. The agent is handed
// implementations that speak to the kernel; a rehearsal, ones that speak to a
// scenario.

// An Arming says whether the agent may touch anything, and why or why not. Any
// goroutine may ask it.
type Arming interface {
	// Armed is by what was heard. It neither waits nor allocates nor asks the
	// kernel.
	Armed() (armed bool, why string)
	// Check is Armed after a look at what a person may have said on the node. It
	// costs a system call or two, and waits for nothing.
	Check() (armed bool, why string)
}

// ErrDisarmed is why a [Victim] was not touched: it is asked last of all, and what
// it hears the loop may not have heard yet.
var ErrDisarmed = errors.New("the agent is disarmed")

// An Observer measures the node. A regular look fills in every signal, an extra
// one at least those of memory; what can not be measured is unknown, with its
// cause. It must not wait for anything.
type Observer interface {
	Observe(into *signals.Observations, kind signals.Kind)
}

// A Notifier waits between looks. It carries no data: what it is woken by only
// makes the agent look.
type Notifier interface {
	// Wait returns at the time given, or earlier when there is a reason to look
	// now, and says what that was.
	Wait(until time.Time) signals.Wakes
	// Wake ends the present wait, or else the next one. Any goroutine may call it.
	Wake()
	// Follow comes after every look: the lines that are crossed when less than
	// their amount is available, and what is. It must not wait, and costs next
	// to nothing where little has changed.
	Follow(node *signals.Observations, lines []signals.Line)
}

// Stalls tells who waited for memory.
type Stalls interface {
	// Stalls returns who did since it was asked before, the longest first.
	Stalls() []signals.Stall
}

// Pods measures the node's active pods.
type Pods interface {
	Measure(ctx context.Context) []signals.Candidate
	// Stored is what is known of the pods' local storage alone, also of pods that
	// have ended. It reads nothing and costs next to nothing.
	Stored() []signals.Candidate
}

// A Collector does the work of reclaiming, beside the loop.
type Collector interface {
	// Collect collects waste until there is enough, by observations that it
	// makes itself, and then measures what pods keep on disks if there is not.
	// It returns what ran, and ends early with ctx.
	Collect(ctx context.Context, what []signals.Garbage, enough func(*signals.Observations) bool) []signals.Garbage
}

// ErrStopChoosing ends the choice of a look: what failed would fail for the next pods,
// too, or has done something that must not be done to one after the other.
var ErrStopChoosing = errors.New("nobody else is tried in this look")

func endsChoice(err error) bool { return errors.Is(err, ErrStopChoosing) }

// Victims finds what there is to end of a pod.
type Victims interface {
	Victim(e *eviction.Eviction) (Victim, error)
}

// A Victim is a pod that is to be evicted: all its processes, and what the API
// server has to be told of it. Both ways return when the processes are gone, or
// when ctx ends.
type Victim interface {
	// Immediate reports the eviction to the API server, for which it waits until telling
	// ends. Then it sends SIGKILL, and waits for the processes until wait has passed or
	// waiting ends. A pod that was reported is killed though ctx is cancelled.
	Immediate(ctx, telling, waiting context.Context, wait time.Duration) (Killed, error)
	// Graceful has the pod end within the grace period.
	Graceful(ctx context.Context, grace time.Duration, change Changes) (Killed, error)
	// Finish sends SIGKILL while Graceful, which was hurried, is still at it: what
	// there is to tell stays Graceful's, whose answer counts these processes.
	Finish(ctx context.Context) (Killed, error)
}

// Changes reach a graceful eviction under way.
type Changes struct {
	// Escalate is closed when the pod has to end at once.
	Escalate <-chan struct{}
	// Withdraw is closed when nobody has to end any more; a pod that has been
	// asked to end already ends nevertheless.
	Withdraw <-chan struct{}
}

// Killed is what a kill did.
type Killed struct {
	Processes  int           // signalled
	SignalTime time.Duration // until the last SIGKILL was sent
	ExitTime   time.Duration // until no process was left
	// Status says whether the API server knows; empty where it has not to.
	Status     Status
	StatusTime time.Duration // until it knew, or was no longer waited for
	// Unmounting: the pod ran no process, and the memory it holds is freed when its
	// volumes are unmounted, which follows from the status.
	Unmounting bool
	// Withdrawn: the pod was not evicted after all.
	Withdrawn bool
	// GivenUp: withdrawn, since it was not carried out within the time for that.
	GivenUp bool
	// ProcessesRemain processes have got their signal but were not gone when ctx
	// ended; they still hold their memory. Rest, if set, is closed when they are gone.
	ProcessesRemain bool
	Rest            <-chan struct{}
}

// An Inventory is brought up to date between looks, when there is time.
type Inventory interface {
	Refresh(ctx context.Context)
}

// Status says what became of telling the API server of an eviction.
type Status string

// The ways it goes.
const (
	StatusReported Status = "reported"
	StatusPending  Status = "pending" // told later
)
