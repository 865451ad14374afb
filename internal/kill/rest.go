package kill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxRests is the maximum number of continued kills. A further one ends at its deadline.
	maxRests = 2
	// stuckTime is how long a kill continues after the last signal. A process that remains then has
	// its SIGKILL pending, and ends when the kernel lets it.
	stuckTime = 10 * time.Second
)

// rests are the kills that continue after their deadline. The Killer owns them: each ends with its
// pod, or with [Killer.Close].
type rests struct {
	ending chan struct{} // closed by end
	going  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	list   []*rest
}

// rest is a continued kill.
type rest struct {
	of   *rests
	uid  string
	dir  uint64        // the inode of the pod's directory
	done chan struct{} // closed when the kill has ended
	gone chan struct{} // closed when no process remains

	// Guarded by rests.mu until done is closed.
	result Result
	left   int
	err    error
}

// of returns the continued kill of that pod, nil without one.
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

// end ends all continued kills, and waits for them.
func (r *rests) end() {
	r.mu.Lock()
	if !r.closed {
		close(r.ending)
		r.closed = true
	}
	r.mu.Unlock()
	r.going.Wait()
}

// goOn continues a late kill concurrently, and returns a channel, which is closed when no process
// remains. It takes over the attempt. Returns nil if too many kills continue already.
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

// run continues a kill.
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

// note records the progress of the kill for joining calls.
func (r *rest) note(a *attempt) {
	if r == nil {
		return
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.result, r.left = a.result, len(a.w.pids)+a.w.invisible
}

// join waits until the kill has ended or ctx ends.
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

// stuck reports whether a continued kill has no further effect.
func (a *attempt) stuck(now time.Time) bool {
	return a.rest != nil && now.Sub(a.signalled) > stuckTime
}
