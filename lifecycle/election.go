package lifecycle

import (
	"context"
	"math/rand/v2"
	"time"
)

// term is one period of leadership.
type term struct {
	ended <-chan struct{} // closed when the leadership is lost; nil: it cannot be lost
}

// over reports whether the leadership is lost.
func (t *term) over() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// elect runs for the leadership until ctx ends, again whenever it was lost, and returns
// a function that waits until it is released. Without elections this process leads.
func (c *Controller) elect(ctx context.Context) func() {
	if c.lock == nil {
		c.inbox.put(elected{term: &term{}})
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.runFor(ctx)
		}
	}()
	return func() { <-done }
}

// runFor waits for the leadership, and returns when it is lost or, after the release of the lease,
// when ctx ends.
func (c *Controller) runFor(ctx context.Context) {
	period := c.settings.Election.RetryPeriod
	for !c.lock.try(ctx, time.Time{}) {
		// Replicas that wait for the same lease must not write at the same time.
		if !pause(ctx, period+rand.N(period/5+1)) {
			return
		}
	}
	ended := make(chan struct{})
	c.inbox.put(elected{&term{ended: ended}, c.lock.before()})
	c.renew(ctx)
	close(ended)
	c.inbox.wake()
	if ctx.Err() != nil {
		// A leadership that was lost is not released: a write of this process may be on its way.
		c.lock.release(context.WithoutCancel(ctx))
	}
}

// renew renews the lease until ctx ends, another process holds the lease, or no renewal succeeded
// for the RenewDeadline.
func (c *Controller) renew(ctx context.Context) {
	s := &c.settings.Election
	for end := time.Now().Add(s.RenewDeadline); pause(ctx, s.RetryPeriod); {
		if c.lock.try(ctx, end) {
			end = time.Now().Add(s.RenewDeadline)
		} else if c.lock.taken() || !time.Now().Before(end) {
			return
		}
	}
}

// pause waits for d, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
