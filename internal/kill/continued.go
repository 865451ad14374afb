package kill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// maxContinued is the maximum number of continued kills. A further one ends at its deadline.
	maxContinued = 2
	// stuckTime is how long a kill continues after the last signal, or a graceful one after its grace
	// period. A process that remains then has its SIGKILL pending, and ends when the kernel lets it.
	stuckTime = 10 * time.Second
)

// continuedKills are the kills that continue after their deadline. The Killer owns them: each ends
// with its pod, or with [Killer.Close].
type continuedKills struct {
	ending  chan struct{} // closed by end
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	list   []*continuedKill
}

// continuedKill is one of them.
type continuedKill struct {
	owner   *continuedKills
	uid     string
	inode   uint64        // of the pod's directory
	done    chan struct{} // closed when the kill has ended
	emptied chan struct{} // closed when no process remains

	// Guarded by continuedKills.mu until done is closed.
	result Result
	left   int // number of remaining processes
	err    error
}

// find returns the continued kill of that pod, nil without one.
func (c *continuedKills) find(t Target) *continuedKill {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kill := range c.list {
		if kill.inode == t.Inode && kill.uid == t.UID {
			return kill
		}
	}
	return nil
}

// Continues reports whether a kill of that pod continues in a goroutine of the Killer. It is safe for concurrent use.
func (k *Killer) Continues(t Target) bool { return k.continued.find(t) != nil }

// end ends all continued kills, and waits for them.
func (c *continuedKills) end() {
	c.mu.Lock()
	if !c.closed {
		close(c.ending)
		c.closed = true
	}
	c.mu.Unlock()
	c.running.Wait()
}

// continueConcurrently continues a late kill in a goroutine, which owns the attempt from then on.
// It returns a channel, which is closed when no process remains. Returns nil if too many kills
// continue already: the attempt then remains the caller's.
func (k *Killer) continueConcurrently(a *attempt) <-chan struct{} {
	all := &k.continued
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed || len(all.list) == maxContinued {
		return nil
	}
	c := &continuedKill{owner: all, uid: a.target.UID, inode: a.target.Inode, done: make(chan struct{}), emptied: make(chan struct{}), result: a.result, left: len(a.w.pids) + a.w.invisible}
	all.list = append(all.list, c)
	all.running.Add(1)
	go c.run(a)
	return c.emptied
}

// run continues a kill.
func (c *continuedKill) run(a *attempt) {
	defer c.owner.running.Done()
	a.continued, a.ending, a.wakeable, a.listFor, a.lastSignalAt = c, c.owner.ending, true, 0, time.Time{}
	ctx := context.Background()
	stop := a.wakeOn(ctx, c.owner.ending)
	err := a.killUntilEmpty(ctx)
	stop()
	a.allowForks()
	result, left := a.result, len(a.w.pids)+a.w.invisible
	a.end()
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.result, c.left, c.err = result, left, err
	c.owner.list = slices.DeleteFunc(c.owner.list, func(other *continuedKill) bool { return other == c })
	close(c.done)
	if err == nil || errors.Is(err, ErrGone) {
		close(c.emptied)
	}
}

// note records the progress of the kill for joining calls. It does nothing before the kill
// continues.
func (c *continuedKill) note(a *attempt) {
	if c == nil {
		return
	}
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.result, c.left = a.result, len(a.w.pids)+a.w.invisible
}

// join waits until the kill has ended or ctx ends.
func (c *continuedKill) join(ctx context.Context) (Result, error) {
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
	}
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	result := c.result
	result.Continued = c.emptied
	return result, &TimeoutError{UID: c.uid, Left: c.left, Cause: ctx.Err()}
}

// stuck reports whether a continued kill, or a graceful one after its grace period, has no further
// effect. No near deadline of a caller ends these.
func (a *attempt) stuck(now time.Time) bool {
	return (a.continued != nil || a.graceful) && now.Sub(a.lastSignalAt) > a.k.stuckTime
}
