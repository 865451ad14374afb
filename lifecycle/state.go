package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/lifecycle/core"
)

// state is the part of the owner's state that other goroutines can read, from its latest round.
type state struct {
	finishedAt time.Time // end of the round
	synced     bool
	leads      bool
	dryRun     string // why decisions are only reported; empty if they are carried out
}

// publish stores the state after a round, and returns when the next one must begin.
func (c *Controller) publish(now time.Time) (next time.Time) {
	why := c.dryRunReason(now)
	c.state.Store(&state{finishedAt: time.Now(), synced: c.complete >= c.lists, leads: c.executor != nil, dryRun: why})
	next = now.Add(maxSleep)
	if at, ok := c.fleet.Next(); ok && at.Before(next) && c.executor != nil {
		next = at
	}
	if at := c.other.At.Add(c.settings.OtherWriterWindow); at.After(now) && at.Before(next) {
		next = at
	}
	return next
}

// dryRunReason returns why decisions are only reported; empty if they are carried
// out.
func (c *Controller) dryRunReason(now time.Time) string {
	switch {
	case c.settings.Mode != Replace:
		return "the mode is " + c.settings.Mode.String()
	case c.settings.DryRun:
		return "it is a dry run"
	case c.other.At.Add(c.settings.OtherWriterWindow).After(now):
		o := c.other
		return fmt.Sprintf("%s wrote %s of node %s at %s: switch that controller off, or use mode observe. It must not write for %s",
			o.By, o.What, o.Node, stamp(o.At), c.settings.OtherWriterWindow)
	}
	return ""
}

// maxStall is how long a round may last. It makes no request and waits for nothing.
const maxStall = time.Minute

// Live returns an error if the loop of the controller does not run.
func (c *Controller) Live() error {
	if since := time.Since(c.state.Load().finishedAt); since > maxSleep+maxStall {
		return fmt.Errorf("the decision loop has completed no round for %s: restart the controller", since.Round(time.Second))
	}
	return nil
}

// Ready returns an error if nothing could be decided: a list was never complete, or the
// API server does not answer. A standby is ready.
func (c *Controller) Ready() error {
	if err := c.Live(); err != nil {
		return err
	}
	var faults []error
	for _, l := range c.links {
		faults = append(faults, l.Err())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("the API server does not answer as it should: %w", err)
	}
	if !c.state.Load().synced {
		return errors.New("not everything has been listed yet")
	}
	return nil
}

// Leads reports whether this process decides.
func (c *Controller) Leads() bool { return c.state.Load().leads }

// DryRunReason returns why decisions are only reported; empty if they are carried out.
func (c *Controller) DryRunReason() string { return c.state.Load().dryRun }

// Explain returns the state of a node and its next step. It waits for the owner of the
// fleet. It returns an error if ctx ends first.
func (c *Controller) Explain(ctx context.Context, node string) (core.Explanation, error) {
	answer := make(chan core.Explanation, 1)
	c.inbox.put(inquiry{node, answer})
	select {
	case e := <-answer:
		return e, nil
	case <-ctx.Done():
		return core.Explanation{}, fmt.Errorf("explain node %s: %w", node, ctx.Err())
	}
}

func (c *Controller) link(what string) *link {
	l := &link{
		Health: reflector.Health{What: what, Log: c.log, Failed: "Failed to reach the API server, declaring no node lost because of it"},
		fails:  func() { c.inbox.put(unreachable{}) },
	}
	c.links = append(c.links, l)
	return l
}
