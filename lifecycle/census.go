package lifecycle

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// Census is the number of objects and states in the controller at one time.
type Census struct {
	core.Census
	Synced   bool // every list was complete once; otherwise the counts are incomplete
	Nodes    int
	Renewals uint64 // observed renewals of node leases
	Replaces bool   // decisions are executed
}

// Census returns the counts. It waits for the owner of the fleet, and returns an error if ctx
// ends first.
func (c *Controller) Census(ctx context.Context) (Census, error) {
	answer := make(chan Census, 1)
	c.inbox.put(count{answer})
	select {
	case n := <-answer:
		return n, nil
	case <-ctx.Done():
		return Census{}, fmt.Errorf("count what is known: %w", ctx.Err())
	}
}

// count is a request for the counts.
type count struct{ answer chan<- Census }

func (e count) apply(c *Controller, now time.Time) {
	e.answer <- Census{
		Census: c.fleet.Census(), Synced: c.complete >= c.lists, Nodes: len(c.nodes),
		Renewals: c.inbox.renewals.Load(), Replaces: c.executor != nil && !c.dryRun,
	}
}
