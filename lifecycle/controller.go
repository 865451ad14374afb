package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// A Controller follows a cluster and acts for it. Make one with [New].
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
	lists        int // that must be complete before anything is decided

	// Of the goroutine that owns the fleet.
	fleet       *core.Fleet
	nodes       map[string]*sighting
	asks        map[string]asking // by node
	rehearsal   *rehearsal
	complete    int   // lists that were complete once
	term        *term // nil before the first
	predecessor time.Time
	executor    *executor  // nil: this process does not decide
	other       otherWrite // the latest of all nodes

	state atomic.Pointer[state]
}

// New prepares a controller that decides by the policy. It makes no request.
func New(s Settings, policy core.Policy, p Parts) *Controller {
	log := cmp.Or(p.Log, slog.Default())
	c := &Controller{
		settings: s, parts: p, log: log, clock: newClock(),
		inbox: newInbox(), warnings: &warnings{log: log}, otherWriters: s.OtherWriters,
		fleet: core.New(policy), nodes: map[string]*sighting{}, asks: map[string]asking{}, rehearsal: newRehearsal(),
	}
	c.events, c.budget = newEvents(&c.settings, &c.parts, log), newBudget(s.QPS, s.Burst)
	c.feeds = c.allFeeds()
	if s.Election.Enabled {
		c.lock = c.newLock()
	}
	c.state.Store(&state{finishedAt: time.Now()})
	return c
}

// Run follows the cluster and decides whenever this process leads, until ctx ends.
// Then it finishes what it began and gives the leadership up. It is to be called
// once.
func (c *Controller) Run(ctx context.Context) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	waits := []func(){c.elect(following), c.events.run(following)}
	for _, feed := range c.feeds {
		waits = append(waits, feed(following))
	}
	for ctx.Err() == nil {
		c.wait(ctx, c.step(following))
	}
	now, _ := c.clock.advance()
	c.stopLeading(now) // before the lease is given to somebody else
	c.publish(now)
	stop()
	for _, wait := range waits {
		wait()
	}
}

// step is one round of the owner of the fleet: it reads its mail, sees whether it
// may decide, decides, and hands out what follows. It returns when it wants to be
// woken at the latest.
func (c *Controller) step(ctx context.Context) (next time.Time) {
	now, missed := c.clock.advance()
	if missed > 0 {
		c.log.Warn("the clock went on while nobody watched: nobody is given up before nodes had time to renew", "by", missed)
		c.fleet.Unreachable(now)
	}
	c.readInbox(now)
	c.startLeading(ctx, now)
	if c.executor != nil {
		began := time.Now()
		actions := c.fleet.Act(now)
		c.parts.Meters.looked(time.Since(began))
		for i := range actions {
			c.dispatch(&actions[i], now)
		}
	}
	return c.publish(now)
}

// readInbox takes in what has come. Renewals go first: who asks in a letter whether a
// node is to be written to asks about one that may have renewed. They count from
// when they came, however long they lay there.
func (c *Controller) readInbox(now time.Time) {
	batch := c.inbox.collect()
	for i := range batch.nodes {
		if r := &batch.nodes[i]; r.at.IsZero() {
			c.fleet.Unleased(r.name, now)
		} else {
			c.fleet.Renewed(r.name, r.at, c.clock.of(c.inbox.moment(r.received)), now)
		}
	}
	for i := range batch.agents {
		if r := &batch.agents[i]; r.at.IsZero() {
			c.fleet.AgentUnleased(r.name, now)
		} else {
			c.fleet.AgentRenewed(r.name, r.at, c.clock.of(c.inbox.moment(r.received)), now)
		}
	}
	for _, e := range batch.events {
		e.apply(c, now)
	}
}

// startLeading begins to decide once everything is known and this process leads,
// ends it with the leadership, and begins anew when decisions are to be carried
// out that were only rehearsed, or the other way round.
func (c *Controller) startLeading(ctx context.Context, now time.Time) {
	leads := c.term != nil && !c.term.over() && c.complete >= c.lists
	rehearse := c.reasonToRehearse(now) != ""
	if c.executor != nil && (!leads || c.executor.term != c.term || c.rehearsal.on != rehearse) {
		c.stopLeading(now)
	}
	if !leads || c.executor != nil {
		return
	}
	c.rehearsal.on = rehearse
	c.executor = newExecutor(ctx, c)
	c.fleet.Lead(c.predecessor, now)
	c.predecessor = time.Time{} // whoever begins anew in the same term succeeds nobody
	c.parts.Meters.leading(true)
	c.log.Info("decisions begin", "carried out", !rehearse, "because", c.reasonToRehearse(now), "nodes", len(c.nodes))
}

// stopLeading ends what is under way, and all belief in what was only rehearsed.
func (c *Controller) stopLeading(now time.Time) {
	if c.executor == nil {
		return
	}
	c.executor.stop()
	c.readInbox(now) // what was done before the end is known before the rest
	for a := range c.executor.open {
		c.fleet.Finished(a, core.ErrObsolete, now)
	}
	c.executor = nil
	c.fleet.StopLeading(now)
	c.rehearsal.end(c, now)
	c.parts.Meters.leading(false)
	c.log.Info("decisions end: this process follows, and decides nothing")
}

// dispatch tells of an action and sees to it that it is done.
func (c *Controller) dispatch(a *core.Action, now time.Time) {
	c.report(a, now)
	switch {
	case a.Kind.Writes() && c.rehearsal.on:
		c.rehearsal.play(c, a, now)
	case a.Kind.Writes() || a.Kind == core.ReadLease:
		c.executor.add(a)
	}
}

// finish tells the fleet how an action went, and everybody if it failed.
func (c *Controller) finish(a *core.Action, err error, now time.Time) {
	c.executor.close(a)
	c.fleet.Finished(a, err, now)
	if err != nil && !errors.Is(err, core.ErrObsolete) {
		c.reportFailure(a, err, now)
	}
}

// Between two rounds: at most so long that one which does not end can be told from
// one which waits; at least so long that rounds which lead to nothing cost little.
const (
	maxSleep = 10 * time.Second
	minSleep = time.Millisecond
)

// wait sleeps until the time, or until there is mail.
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

// termEnds is closed when the leadership is lost that is exercised now.
func (c *Controller) termEnds() <-chan struct{} {
	if c.executor == nil {
		return nil
	}
	return c.executor.term.ended
}
