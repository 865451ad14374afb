package kill

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// Graceful sends SIGTERM to every process of the pod, waits up to the grace period for them to end,
// and then does the same as [Killer.Immediate]. It does so immediately when escalate is closed, or if
// no process can receive SIGTERM. Processes that start meanwhile, such as shutdown handlers,
// receive no SIGTERM. A frozen pod stays frozen until it is killed.
//
// When ctx ends within the grace period, no process is killed. After it, the kill also ends with
// [ErrTimeout] when a signal could end none of the remaining processes: the next pod needs its workspace.
// Returns the errors of Immediate.
func (k *Killer) Graceful(ctx context.Context, t Target, grace time.Duration, escalate <-chan struct{}) (Result, error) {
	a, err := k.begin(k.gracefulWorkspace, t)
	if err != nil {
		return Result{}, err
	}
	defer a.end()
	a.wakeable = true
	defer a.wakeOn(ctx, escalate)()
	ended, err := a.terminate(ctx, grace, escalate)
	if ended || err != nil {
		return a.result, err
	}
	a.w.signalledPIDs = a.w.signalledPIDs[:0] // SIGKILL is counted separately
	a.result.Signalled = 0
	a.graceful, a.lastSignalAt = true, time.Time{}
	a.wakeable = false // the eventfd stays readable after an escalation: no wait would last
	defer a.allowForks()
	err = a.killUntilEmpty(ctx)
	return a.result, err
}

// Await waits until no process of the pod remains, and sends no signal: another program ends the
// pod. It occupies the slot of a graceful kill. Returns the errors of Immediate, [ErrTimeout] if
// ctx ends before.
func (k *Killer) Await(ctx context.Context, t Target) error {
	a, err := k.begin(k.gracefulWorkspace, t)
	if err != nil {
		return err
	}
	defer a.end()
	a.wakeable, a.pause = true, maxWait // another program ends it, for hours at worst
	defer a.wakeOn(ctx, nil)()
	for {
		if err := a.list(&a.w.pids); err != nil {
			return err
		}
		if a.empty() {
			return nil
		}
		if ctx.Err() != nil {
			return a.timeout(ctx)
		}
		_, err := a.openPidfds(a.w.pids)
		if err == nil {
			a.awaitExits(ctx)
		}
		a.closePidfds()
		if err != nil {
			return err
		}
	}
}

// terminate sends SIGTERM and waits. It returns ended if no process remains.
func (a *attempt) terminate(ctx context.Context, grace time.Duration, escalate <-chan struct{}) (ended bool, err error) {
	graceCtx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for sentTerm := false; ; sentTerm = true {
		if err := a.list(&a.w.pids); err != nil {
			return false, err
		}
		if a.empty() {
			a.result.ToEmpty = time.Since(a.begun)
			return true, nil
		}
		if err := a.refuse(); err != nil {
			return false, err
		}
		switch {
		case ctx.Err() != nil:
			return false, a.timeout(ctx)
		case graceCtx.Err() != nil, closed(escalate), a.unreachable():
			return false, nil
		case sentTerm: // to wait for the exits
			_, err = a.openPidfds(a.w.pids)
		default:
			err = a.signalAll(ctx, unix.SIGTERM)
		}
		if err == nil {
			a.awaitExits(graceCtx)
		}
		a.closePidfds()
		if err != nil {
			return false, err
		}
	}
}

// unreachable reports whether no process can receive SIGTERM, and SIGKILL can end some. Processes that
// v2 counts and no longer lists are exiting.
func (a *attempt) unreachable() bool {
	return len(a.w.pids) == 0 && (a.w.invisible > 0 || a.w.partial != nil) && !a.k.mounts.blind
}

// wakeOn ends the current wait when ctx ends or escalate is closed. The returned function stops that.
func (a *attempt) wakeOn(ctx context.Context, escalate <-chan struct{}) (stop func()) {
	var count [8]byte
	_, _ = unix.Read(a.w.wake, count[:]) // from an earlier kill
	stopped, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-ctx.Done():
		case <-escalate:
		case <-stopped:
			return
		}
		binary.NativeEndian.PutUint64(count[:], 1)
		_, _ = unix.Write(a.w.wake, count[:])
	}()
	return func() {
		close(stopped)
		<-finished
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
