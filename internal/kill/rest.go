package kill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxRests is how many kills go on at a time. One that can not ends at its deadline.
	maxRests = 2
	// stuckTime is how long a kill goes on after the last signal: what is left then has
	// its SIGKILL pending, and ends when the kernel lets it.
	stuckTime = 10 * time.Second
)

// rests are the kills that go on after their deadline. The Killer owns them: each ends
// with its pod, or with [Killer.Close].
type rests struct {
	ending chan struct{} // closed by end
	going  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	list   []*rest
}

// A rest is one of them.
type rest struct {
	of   *rests
	uid  string
	dir  uint64        // the inode of the pod's directory
	done chan struct{} // closed when it is over
	gone chan struct{} // closed when no process is left

	// Guarded by rests.mu until done is closed.
	result Result
	left   int
	err    error
}

// of returns the kill of that pod that goes on, nil if there is none.
func (r *rests) of(t Target) *rest {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.list {
		if one.dir == t.Inode && one.uid == t.UID {
			return one
		}
	}
	return nil
}

// end has all of them end, and waits for that.
func (r *rests) end() {
	r.mu.Lock()
	if !r.closed {
		close(r.ending)
		r.closed = true
	}
	r.mu.Unlock()
	r.going.Wait()
}

// goOn has a kill that is late go on beside the caller, and returns what is closed when
// no process is left. The attempt is not the caller's any more then. Returns nil where
// too many go on already.
func (k *Killer) goOn(a *attempt) <-chan struct{} {
	r := &k.rests
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.list) == maxRests {
		return nil
	}
	one := &rest{of: r, uid: a.target.UID, dir: a.target.Inode, done: make(chan struct{}), gone: make(chan struct{}), result: a.result, left: len(a.w.pids) + a.w.invisible}
	r.list = append(r.list, one)
	r.going.Add(1)
	go one.run(a)
	return one.gone
}

// run is the rest of a kill.
func (r *rest) run(a *attempt) {
	defer r.of.going.Done()
	a.rest, a.ending, a.wakeable, a.listFor, a.signalled = r, r.of.ending, true, 0, time.Now()
	ctx := context.Background()
	stop := a.wakeOn(ctx, r.of.ending)
	err := a.killUntilEmpty(ctx)
	stop()
	a.allowForks()
	result, left := a.result, len(a.w.pids)+a.w.invisible
	a.end()
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.result, r.left, r.err = result, left, err
	r.of.list = slices.DeleteFunc(r.of.list, func(one *rest) bool { return one == r })
	close(r.done)
	if err == nil || errors.Is(err, ErrGone) {
		close(r.gone)
	}
}

// note has a joining call know how far the kill has come.
func (r *rest) note(a *attempt) {
	if r == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.result, r.left = a.result, len(a.w.pids)+a.w.invisible
}

// join waits until the kill is over or ctx ends.
func (r *rest) join(ctx context.Context) (Result, error) {
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	result := r.result
	result.Rest = r.gone
	return result, &TimeoutError{UID: r.uid, Left: r.left, Cause: ctx.Err()}
}

// stuck reports whether a kill that goes on has done what it can.
func (a *attempt) stuck(now time.Time) bool {
	return a.rest != nil && now.Sub(a.signalled) > stuckTime
}
