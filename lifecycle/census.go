package lifecycle

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
)

// A Census counts what the controller knows at one moment.
type Census struct {
	core.Census
	Synced   bool // every list was complete once; else the counts mean little
	Nodes    int
	Renewals uint64 // of leases of nodes, that were seen
	Replaces bool   // decisions are carried out
}

// Census counts. It waits for the owner of the fleet, ctx for how long.
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

// count: somebody wants to know how much there is.
type count struct{ answer chan<- Census }

func (e count) apply(c *Controller, now time.Time) {
	e.answer <- Census{
		Census: c.fleet.Census(), Synced: c.complete >= c.lists, Nodes: len(c.nodes),
		Renewals: c.inbox.renewals.Load(), Replaces: c.executor != nil && !c.rehearsal.on,
	}
}
