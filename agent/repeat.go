package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// NewRepeater returns a checker that repeats the checks of an agent with [Checker.Repeat].
func NewRepeater(policy *eviction.Policy, limits limiter.Policy) *Checker {
	return &Checker{Machine: eviction.New(policy), Limiter: limiter.New(limits), GivesWay: true, growth: &growth{}}
}

// Restore continues from a state. s is the snapshot of the check before, if the state is that of
// after a check, and nil before the first one.
func (c *Checker) Restore(state *State, s *signals.Snapshot, now time.Time) {
	c.Machine.Restore(state.Decisions, now)
	c.Limiter.Restore(state.Limiter, now)
	if s != nil {
		c.Machine.RestoreSamples(s)
	}
	c.lastServed = 0
	for condition := range signals.Condition(signals.ConditionCount) {
		for _, name := range state.Served {
			if condition.String() == name {
				c.lastServed.Add(condition)
			}
		}
	}
}

// Adopt replaces policy and limits. Timers, conditions and the record of evictions are kept. node is the
// observation of the next check.
func (c *Checker) Adopt(policy *eviction.Policy, limits limiter.Policy, node *signals.Observations) {
	c.Machine = c.Machine.Adopt(policy, node)
	c.Limiter.SetPolicy(limits)
}

// Repeat makes a check again: by the snapshot and the trace of the original one. With the same
// state, policy and limits, the outcome is the same. It is valid until the next check.
func (c *Checker) Repeat(s *signals.Snapshot, t *Trace) *Outcome {
	r := &repetition{trace: t}
	c.Observer, c.Pods = r, r
	for _, w := range t.Withdrawn {
		c.Limiter.Withdrawn(w.Namespace, w.Owner, w.DecidedAt)
		c.Limiter.Cancel(w.UID)
	}
	killed := tries{}
	c.deleted.since = map[string]time.Time{}
	for _, d := range t.Deletions {
		if !d.Since.IsZero() {
			c.deleted.since[d.UID] = d.Since
		}
		if d.Killed {
			killed[d.UID] = tried{n: 1}
		}
	}
	ctx, constraints := context.Background(), &Constraints{Draining: r.block, Kills: killed, AwaitsDeleted: true}
	if t.ForGrowth {
		before := *s
		before.NeedsConfirmation = false // that was decided behind the measurement
		c.noteCandidates(&before, c.Machine.Imminent(&before), r.Measure(ctx))
	}
	outcome := c.Begin(s)
	for plan := c.Next(ctx, constraints); plan.Action != Wait; plan = c.Next(ctx, constraints) {
		c.Apply(plan, r.execute(plan))
	}
	c.Spend(outcome)
	return outcome
}

// repetition implements the ports of a check by the trace of the original one. A check that
// deviates from the original finds nothing blocked, nothing measured, and every attempt successful.
type repetition struct {
	trace *Trace
	used  struct{ blocks, measured, seen, collections, attempts int }
}

// following returns the item of a list that the counter points to, and moves the counter.
func following[T any](list []T, used *int) (item T) {
	if *used < len(list) {
		item = list[*used]
	}
	*used++
	return item
}

// block returns what blocked the original check.
func (r *repetition) block() string { return following(r.trace.Blocks, &r.used.blocks) }

// Measure implements Pods.
func (r *repetition) Measure(context.Context) []signals.Candidate {
	return following(r.trace.Measured, &r.used.measured)
}

// Stored implements Pods. A pod above its limit stands for those of the original check: the
// measurement decides.
func (r *repetition) Stored() []signals.Candidate {
	if !r.trace.ForLimits {
		return nil
	}
	pod := &signals.Pod{StorageLimit: &signals.Quantity{}}
	return []signals.Candidate{{Pod: pod, Usage: &signals.Usage{EphemeralStorage: signals.Of[signals.Bytes](1)}}}
}

// Observe implements Observer.
func (r *repetition) Observe(into *signals.Observations, _ signals.Kind) {
	*into = following(r.trace.Seen, &r.used.seen)
}

// execute returns the result of a plan in the original check.
func (r *repetition) execute(p Plan) PlanResult {
	switch p.Action {
	case CollectGarbage:
		return following(r.trace.Collections, &r.used.collections)
	case Evict:
		return following(r.trace.Attempts, &r.used.attempts)
	}
	return PlanResult{}
}
