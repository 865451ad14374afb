package lifecycle

import (
	"context"
	"errors"
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

// Nodes returns the names of all nodes. It waits for the owner of the fleet, and returns an error if ctx ends first,
// or if not all nodes are known yet.
func (c *Controller) Nodes(ctx context.Context) (map[string]bool, error) {
	answer := make(chan map[string]bool, 1)
	c.inbox.put(roster{answer})
	select {
	case names := <-answer:
		if names == nil {
			return nil, errors.New("list the nodes: not everything has been listed yet")
		}
		return names, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("list the nodes: %w", ctx.Err())
	}
}

// roster is a request for the names of all nodes; nil until every list was complete.
type roster struct{ answer chan<- map[string]bool }

func (e roster) apply(c *Controller, _ time.Time) {
	if c.complete < c.lists {
		e.answer <- nil
		return
	}
	names := make(map[string]bool, len(c.nodes))
	for name := range c.nodes {
		names[name] = true
	}
	e.answer <- names
}

// count is a request for the counts.
type count struct{ answer chan<- Census }

func (e count) apply(c *Controller, now time.Time) {
	e.answer <- Census{
		Census: c.fleet.Census(), Synced: c.complete >= c.lists, Nodes: len(c.nodes),
		Renewals: c.inbox.renewals.Load(), Replaces: c.executor != nil && !c.dryRun,
	}
}
