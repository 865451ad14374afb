package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Controller follows a cluster and acts on it. [New] makes one.
type Controller struct {
	settings     Settings
	parts        Parts
	log          *slog.Logger
	clock        *clock // of the goroutine that owns the fleet
	inbox        *inbox
	warnings     *warnings
	otherWriters otherWriters
	events       *events
	budget       *budget
	lock         *lock // nil without elections
	pods         *store[*model.Pod]
	feeds        []feed
	links        []*link
	lists        int // to be complete before any decision

	// Of the goroutine that owns the fleet.
	fleet       *core.Fleet
	nodes       map[string]*observation
	dryRun      bool                  // actions are simulated
	deleted     map[string]*model.Pod // by a dry run, by UID
	complete    int                   // lists that were complete once
	term        *term                 // nil before the first
	predecessor time.Time
	executor    *executor  // nil: this process makes no decisions
	other       otherWrite // the latest of all nodes

	state atomic.Pointer[state]
}

// New returns a controller that decides by the policy. It makes no request.
func New(s Settings, policy core.Policy, p Parts) *Controller {
	log := cmp.Or(p.Log, slog.Default())
	c := &Controller{
		settings: s, parts: p, log: log, clock: newClock(),
		inbox: newInbox(), warnings: &warnings{log: log}, otherWriters: s.OtherWriters,
		fleet: core.New(policy), nodes: map[string]*observation{}, deleted: map[string]*model.Pod{},
	}
	c.events, c.budget = newEvents(&c.settings, &c.parts, log), newBudget(s.QPS, s.Burst)
	c.feeds = c.allFeeds()
	if s.Election.Enabled {
		c.lock = c.newLock()
	}
	c.state.Store(&state{finishedAt: time.Now()})
	return c
}

// Reconfigure has the controller decide by another policy from its next round on, see
// [core.Fleet.SetPolicy]. It does not wait, and is safe for concurrent use.
func (c *Controller) Reconfigure(p core.Policy) { c.inbox.put(reconfigured{p}) }

// ErrSetBack reports that dates of API objects cannot be compared with the clock of this
// process any more. A restart mends it.
var ErrSetBack = errors.New("this process must restart: the wall clock was set back")

// Run follows the cluster, and decides while this process leads, until ctx ends. Then
// it finishes what it began and releases the leadership. It must be called once. Returns
// [ErrSetBack] if the wall clock was set back: another replica, or this one after a
// restart, continues.
func (c *Controller) Run(ctx context.Context) (err error) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	waits := []func(){c.elect(following), c.events.run(following)}
	for _, feed := range c.feeds {
		waits = append(waits, feed(following))
	}
	for ctx.Err() == nil {
		if back := c.clock.setBack(); back > 0 {
			err = fmt.Errorf("%w by %s", ErrSetBack, back.Round(time.Millisecond))
			break
		}
		c.wait(ctx, c.step(following))
	}
	now, _ := c.clock.advance()
	c.stopLeading(now) // before the lease is released
	c.publish(now)
	stop()
	for _, wait := range waits {
		wait()
	}
	return err
}

// step is one round of the owner of the fleet: it applies the inbox, starts or stops
// leading, decides, and dispatches the actions. Tasks that it starts end with ctx. It
// returns when the next round must begin at the latest.
func (c *Controller) step(ctx context.Context) (next time.Time) {
	now, missed := c.clock.advance()
	if missed > 0 {
		c.log.Warn("Detected a gap in observation, extending grace periods", "gap", missed)
		c.fleet.Unreachable(now)
	}
	c.readInbox(now)
	c.startLeading(ctx, now)
	if c.executor != nil {
		began := time.Now()
		actions := c.fleet.Act(now)
		c.parts.Meters.checked(time.Since(began))
		for i := range actions {
			c.dispatch(&actions[i], now)
		}
	}
	return c.publish(now)
}

// readInbox applies what was received. Renewals come first: an event that asks whether
// a write to a node is wanted may concern one that has renewed. A renewal counts from
// the time it was received.
func (c *Controller) readInbox(now time.Time) {
	batch := c.inbox.collect()
	for i := range batch.nodes {
		if r := &batch.nodes[i]; r.at.IsZero() {
			c.fleet.Unleased(r.name, now)
		} else {
			c.fleet.Renewed(r.name, r.at, c.clock.of(c.inbox.timeOf(r.received)), now)
		}
	}
	for i := range batch.agents {
		if r := &batch.agents[i]; r.at.IsZero() {
			c.fleet.AgentUnleased(r.name, now)
		} else {
			c.fleet.AgentRenewed(r.name, r.at, c.clock.of(c.inbox.timeOf(r.received)), now)
		}
	}
	for _, e := range batch.events {
		e.apply(c, now)
	}
}

// startLeading starts decisions once every list is complete and this process leads. It
// ends them with the term, and restarts them when the controller switches between dry
// run and writing.
func (c *Controller) startLeading(ctx context.Context, now time.Time) {
	leads := c.term != nil && !c.term.over() && c.complete >= c.lists
	dryRun := c.dryRunReason(now) != ""
	if c.executor != nil && (!leads || c.executor.term != c.term || c.dryRun != dryRun) {
		c.stopLeading(now)
	}
	if !leads || c.executor != nil {
		return
	}
	c.dryRun = dryRun
	c.fleet.SetDryRun(dryRun)
	c.executor = newExecutor(ctx, c)
	c.fleet.Lead(c.predecessor, now)
	c.predecessor = time.Time{} // a restart in the same term has no predecessor
	c.parts.Meters.leading(true)
	c.log.Info("Started deciding", "dryRun", dryRun, "reason", c.dryRunReason(now), "nodes", len(c.nodes))
}

// stopLeading ends the tasks under way, and discards the results of a dry run.
func (c *Controller) stopLeading(now time.Time) {
	if c.executor == nil {
		return
	}
	c.executor.stop()
	c.readInbox(now) // results from before the end are applied first
	for a := range c.executor.open {
		c.fleet.Finished(a, core.ErrObsolete, now)
	}
	c.executor = nil
	c.fleet.StopLeading(now)
	c.endDryRun(now)
	c.parts.Meters.leading(false)
	c.log.Info("Stopped deciding: not the leader any more")
}

// dispatch reports an action and has it carried out.
func (c *Controller) dispatch(a *core.Action, now time.Time) {
	c.report(a, now)
	switch {
	case a.Kind.Writes() && c.dryRun:
		c.simulate(a, now)
	case a.Kind.Writes() || a.Kind == core.ReadLease:
		c.executor.add(a)
	}
}

// finish passes the result of an action to the fleet, and reports a failure.
func (c *Controller) finish(a *core.Action, err error, now time.Time) {
	c.executor.close(a)
	c.fleet.Finished(a, err, now)
	if err != nil && !errors.Is(err, core.ErrObsolete) {
		c.reportFailure(a, err, now)
	}
}

// Bounds of the time between two rounds: the upper one distinguishes a loop that hangs
// from one that waits, the lower one limits the cost of rounds without a result.
const (
	maxSleep = 10 * time.Second
	minSleep = time.Millisecond
)

// wait blocks until the time, or until the inbox has something.
func (c *Controller) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(max(minSleep, min(c.clock.until(until), maxSleep)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.inbox.some:
	case <-ctx.Done():
	case <-c.termEnds():
	}
}

// termEnds returns the channel closed when the present leadership is lost.
func (c *Controller) termEnds() <-chan struct{} {
	if c.executor == nil {
		return nil
	}
	return c.executor.term.ended
}
