package evict

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

// Processes are the processes of one pod. Its waits end with their ctx.
type Processes interface {
	// Containers returns the runtime's IDs of the containers that contain the processes.
	Containers() []string
	// Kill sends SIGKILL and waits until no process remains. Processes that remain when ctx ends
	// are part of the result. Returns an error if nothing was signalled although processes exist.
	Kill(ctx context.Context) (Ended, error)
	// End sends SIGTERM, and SIGKILL after the grace period; without a grace period it sends
	// SIGKILL only. It may run concurrently with Kill of another pod. Returns an error like Kill.
	End(ctx context.Context, grace time.Duration, escalate <-chan struct{}) (Ended, error)
	// Await waits until no process remains, and sends no signal. Returns an error if processes
	// remain when ctx ends.
	Await(ctx context.Context) error
}

// Ended is the result of ending a pod's processes.
type Ended struct {
	Signalled            int
	SignalTime, ExitTime time.Duration // since the call
	ProcessesRemain      bool          // processes remained when ctx ended
	// Rest is closed when the remaining processes are gone; nil if they are not pursued further.
	Rest <-chan struct{}
}

// Notice is the report of one eviction to the API server.
type Notice struct {
	Eviction   *eviction.Eviction
	Decided    time.Time
	Containers []string // running at the time, by the runtime's IDs
}

// Status reports evictions to the API server. Only Report may block.
type Status interface {
	// Enqueue stores the report as pending.
	Enqueue(Notice)
	// Report sends it. Returns an error if the server has not accepted it: it remains pending,
	// unless the pod is gone.
	Report(context.Context, Notice) error
	// Commit has a still pending report sent later. Cancel drops it, because the pod was not
	// killed.
	Commit(Notice)
	Cancel(Notice)
	// Announce reports the eviction of a pod that the server itself ends.
	Announce(Notice)
}

// Answer is the result of a request for a soft eviction.
type Answer struct {
	// Accepted means that the pod is ending. Otherwise the request is repeated after Retry. If
	// Retry is 0 it is not repeated: the controller carries it out.
	Accepted bool
	Retry    time.Duration
	Why      string // reason of a refusal
}

// Soft requests the graceful end of a pod.
type Soft interface {
	// Request sends or repeats the request. Returns an error if it was not delivered.
	Request(ctx context.Context, n Notice, grace time.Duration) (Answer, error)
	// Withdraw withdraws the request. Returns an error if that failed; the request may remain.
	Withdraw(ctx context.Context, n Notice) error
	// Ending reports whether the pod is known to be deleted on the API server, for any reason. It
	// does not block.
	Ending(n Notice) bool
}

// Evictor ends pods: one immediately and one gracefully at a time.
type Evictor struct {
	Status Status // nil without an API server
	Soft   Soft   // nil without an API server
	// Refused, if set, is called with the reason each time a request for a soft eviction fails. It
	// must not block.
	Refused func(e *eviction.Eviction, why string)
}

// Result is the result of ending a pod.
type Result struct {
	Ended
	Reported, Pending bool          // state of the report; neither without an API server
	StatusTime        time.Duration // until the report succeeded, or the wait for it ended
	Withdrawn         bool          // not evicted: the request is withdrawn
	GivenUp           bool          // withdrawn because it was refused, or not acted on, for too long
}

// Immediate reports the eviction to the API server, waits for the answer until reporting ends, and
// kills. It waits for the end of the processes for the duration wait, counted from the kill, or
// until waiting ends. Neither prevents the kill. A pod that has ended by itself meanwhile counts as killed: it was selected,
// and no other pod is evicted in its place. Returns an error if the kill fails.
func (v *Evictor) Immediate(ctx, reporting, waiting context.Context, wait time.Duration, e *eviction.Eviction, p Processes) (Result, error) {
	return v.immediate(ctx, reporting, waiting, e, p, func(ctx context.Context) (Ended, error) {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return p.Kill(ctx)
	})
}

func (v *Evictor) immediate(ctx, reporting, waiting context.Context, e *eviction.Eviction, p Processes, kill func(context.Context) (Ended, error)) (r Result, err error) {
	if v.Status == nil || !e.Pod.FromAPI {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(waiting, func() { cancel(context.DeadlineExceeded) })()
		r.Ended, err = kill(ctx)
		return r, err
	}
	n := Notice{e, time.Now(), p.Containers()}
	r.Reported = v.report(reporting, n)
	r.Pending = !r.Reported
	r.StatusTime = time.Since(n.Decided)
	ctx, cancel := uncancelled(ctx, waiting)
	defer cancel()
	r.Ended, err = kill(ctx)
	if r.Signalled == 0 && err != nil {
		v.Status.Cancel(n)
		return r, err
	}
	v.Status.Commit(n)
	if r.Signalled > 0 {
		r.SignalTime += r.StatusTime
	}
	r.ExitTime += r.StatusTime
	return r, err
}

// signalTime is the minimum time for the signals of a kill.
const signalTime = 50 * time.Millisecond

// uncancelled returns ctx without its cancellation: a pod that was reported as evicted must not
// keep running because the agent stops. The deadline of ctx and the end of waiting remain, both as a
// passed deadline; they bound the wait after the signals. The signals have signalTime even if the
// server has used up the deadline.
func uncancelled(ctx, waiting context.Context) (context.Context, context.CancelFunc) {
	minDeadline := time.Now().Add(signalTime)
	kept, end := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel := context.CancelFunc(func() {})
	if deadline, bounded := ctx.Deadline(); bounded {
		if deadline.Before(minDeadline) {
			deadline = minDeadline
		}
		kept, cancel = context.WithDeadline(kept, deadline)
	}
	stop := context.AfterFunc(waiting, func() {
		time.AfterFunc(time.Until(minDeadline), func() { end(context.DeadlineExceeded) })
	})
	return kept, func() { stop(); cancel(); end(nil) }
}

// report reports whether the API server has received the status. An abandoned request may have been
// served nevertheless; a later attempt reads the pod first.
func (v *Evictor) report(ctx context.Context, n Notice) (reported bool) {
	v.Status.Enqueue(n)
	if ctx.Err() != nil {
		return false
	}
	answer := make(chan error, 1)
	go func() { answer <- v.Status.Report(ctx, n) }()
	select {
	case err := <-answer:
		return err == nil
	case <-ctx.Done(): // also if the request ignores its ctx
		return false
	}
}
