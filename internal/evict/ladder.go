package evict

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

// Processes are those of one pod. A wait ends with its ctx.
type Processes interface {
	// Containers are the runtime's IDs of the containers they run in.
	Containers() []string
	// Kill sends SIGKILL and waits until none is left.
	Kill(ctx context.Context) (Ended, error)
	// End sends SIGTERM, and SIGKILL after the grace period; without a grace
	// period SIGKILL. It may run beside Kill of another pod.
	End(ctx context.Context, grace time.Duration, hurry <-chan struct{}) (Ended, error)
	// Await waits until none is left, without touching any.
	Await(ctx context.Context) error
}

// Ended is what became of a pod's processes.
type Ended struct {
	Signalled            int
	SignalTime, ExitTime time.Duration // from the call
	ProcessesRemain      bool          // not gone when ctx ended
	// Rest is closed when what lingers is gone; nil if nothing more is done about it.
	Rest <-chan struct{}
}

// A Notice is what the API server has to be told of an eviction.
type Notice struct {
	Eviction   *eviction.Eviction
	Decided    time.Time
	Containers []string // that ran at the time, by the runtime's IDs
}

// Status tells the API server that a pod was evicted. Nothing but Tell may wait.
type Status interface {
	// Enqueue writes down that the server has to be told.
	Enqueue(Notice)
	// Report tells it, and thereby pays what is owed.
	Report(context.Context, Notice) error
	// Commit has what is still owed paid later; Spared cancels it, because the
	// pod was not killed after all.
	Commit(Notice)
	Cancel(Notice)
	// Announce tells others of a pod that the server itself ends.
	Announce(Notice)
}

// An Answer is what came of asking for a soft eviction.
type Answer struct {
	// Accepted: the pod is ending now. Otherwise it is asked for again after
	// Retry, unless Retry is 0: then somebody else goes on from here.
	Accepted bool
	Retry    time.Duration
	Why      string // a refusal
}

// Soft asks for a pod to be ended politely.
type Soft interface {
	Request(ctx context.Context, n Notice, grace time.Duration) (Answer, error)
	Withdraw(ctx context.Context, n Notice) error
	// Ending reports whether the API server is known to have the pod deleted, by
	// whomever: it does not wait.
	Ending(n Notice) bool
}

// A Evictor ends pods; one at once and one politely at a time.
type Evictor struct {
	Status Status // nil without an API server
	Soft   Soft   // nil without an API server
	// Refused, if set, is told why a soft eviction does not go ahead, each time
	// it is asked for in vain. It must not wait.
	Refused func(e *eviction.Eviction, why string)
}

// A Result is what came of ending a pod.
type Result struct {
	Ended
	Reported, Pending bool          // what the API server knows; neither where it has not to
	StatusTime        time.Duration // until it knew, or was no longer waited for
	Withdrawn         bool          // it was not evicted: what was asked for is taken back
	GivenUp           bool          // withdrawn since it was refused, or not acted on, for too long
}

// Immediate reports the eviction to the API server, for which it waits until telling
// ends, and kills. It waits for the processes for as long as wait, counted from the kill,
// or until waiting ends. A pod that has ended by itself meanwhile counts as killed: it
// was chosen, and no other one is evicted in its place.
func (l *Evictor) Immediate(ctx, telling, waiting context.Context, wait time.Duration, e *eviction.Eviction, p Processes) (Result, error) {
	return l.immediate(ctx, telling, waiting, e, p, func(ctx context.Context) (Ended, error) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return p.Kill(ctx)
	})
}

func (l *Evictor) immediate(ctx, telling, waiting context.Context, e *eviction.Eviction, p Processes, kill func(context.Context) (Ended, error)) (r Result, err error) {
	if l.Status == nil || !e.Pod.FromAPI {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(waiting, cancel)()
		r.Ended, err = kill(ctx)
		return r, err
	}
	n := Notice{e, time.Now(), p.Containers()}
	r.Reported = l.report(telling, n)
	r.Pending = !r.Reported
	r.StatusTime = time.Since(n.Decided)
	ctx, cancel := uncancelled(ctx, waiting)
	defer cancel()
	r.Ended, err = kill(ctx)
	if r.Signalled == 0 && err != nil {
		l.Status.Cancel(n)
		return r, err
	}
	l.Status.Commit(n)
	if r.Signalled > 0 {
		r.SignalTime += r.StatusTime
	}
	r.ExitTime += r.StatusTime
	return r, err
}

// signalTime is what the signals of a kill have at least.
const signalTime = 50 * time.Millisecond

// uncancelled is ctx without its cancellation: of a pod that was reported as evicted no
// process may go on because the agent is to stop. Its deadline and the end of waiting
// remain, which are for the wait after the signals: those have their time though the
// server may have used it up.
func uncancelled(ctx, waiting context.Context) (context.Context, context.CancelFunc) {
	least := time.Now().Add(signalTime)
	kept := context.WithoutCancel(ctx)
	deadline, bounded := ctx.Deadline()
	if deadline.Before(least) {
		deadline = least
	}
	var cancel context.CancelFunc
	if bounded {
		kept, cancel = context.WithDeadline(kept, deadline)
	} else {
		kept, cancel = context.WithCancel(kept)
	}
	stop := context.AfterFunc(waiting, func() { time.AfterFunc(time.Until(least), cancel) })
	return kept, func() { stop(); cancel() }
}

// report reports whether the API server knows. A request that is given up may
// have been served nevertheless: whoever pays the debt looks before.
func (l *Evictor) report(ctx context.Context, n Notice) (told bool) {
	l.Status.Enqueue(n)
	if ctx.Err() != nil {
		return false
	}
	answer := make(chan error, 1)
	go func() { answer <- l.Status.Report(ctx, n) }()
	select {
	case err := <-answer:
		return err == nil
	case <-ctx.Done(): // whatever the request does about it
		return false
	}
}
