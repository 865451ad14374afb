package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// Checker decides what one check of the node leads to. It reads the node through its ports and
// returns plans. It has no side effects on the node:
//
//	observe -> evaluate -> pods above a storage limit? -> blocked? -> garbage to collect? ->
//	measure, rank, skip pods that would not help, or with a limited eviction -> Evict
//
// [Checker.Begin] evaluates a snapshot, [Checker.Next] returns the next [Plan], and
// [Checker.Apply] receives its [PlanResult], until the plan is to Wait. The command `simulate`
// runs the same Checker over a scenario.
type Checker struct {
	Machine  *eviction.Machine
	Observer Observer
	Pods     Pods
	// Limiter, if set, may limit the eviction of the pod that would be chosen, or of all pods.
	Limiter *limiter.Limiter
	// GivesWay: if nothing can be done for a threshold, the next hard one is handled.
	GivesWay bool
	Trace    *Trace // if set, it receives what a check reads beyond its snapshot

	round
	outcome    Outcome              // of the last check; reused, since a new one would be an allocation
	passed     []Outcome            // of thresholds without a possible step
	seen       signals.Observations // last observation before a pod is chosen
	lastServed signals.ConditionSet // condition of the last attempt that ended its check, as long as any threshold is met
	deleted    deletions
	growth     *growth // nil in a scenario, which has no measurements in between
}

// round is the progress of a check.
type round struct {
	stage        stage
	evaluated    eviction.Verdict     // as evaluated: its target is the first threshold to act for
	current      eviction.Verdict     // its target is the hard threshold with the present turn
	servedBefore signals.ConditionSet // lastServed, at the start of the check
	group        group                // the hard thresholds that have their turns now
	groupBegun   bool                 // the first threshold was searched for the group
	softServed   bool                 // the soft threshold had its turn
	violations   []eviction.Eviction  // of pods above a local-storage limit
	nextIndex    int                  // into violations or the ranking
	limited      bool                 // the eviction of an earlier pod of the ranking was limited
}

// stage is a step of a check.
type stage uint8

const (
	atStorageLimits stage = iota
	atViolations
	atThreshold
	atBlocks
	atGarbage
	atRanking
	atChoice
	atEnd
)

// Begin evaluates the thresholds for a snapshot. The outcome is valid until the next check.
func (c *Checker) Begin(s *signals.Snapshot) *Outcome {
	c.outcome = Outcome{Snapshot: s, Verdict: c.Machine.Evaluate(s)}
	o := &c.outcome
	c.forgetEndedConditions(&o.Verdict)
	c.deleted.until = time.Time{}
	if s.Kind == signals.Periodic {
		c.growth.forget(&o.Verdict)
	}
	if o.Verdict.Target == nil && !o.Verdict.CheckStorageLimits { // the usual case: the rest costs nothing
		c.endWithoutTarget()
		return o
	}
	c.round = round{evaluated: o.Verdict, current: o.Verdict, servedBefore: c.lastServed}
	c.passed = c.passed[:0]
	return o
}

// Next returns the next plan. It is valid until its result was applied.
func (c *Checker) Next(ctx context.Context, constraints *Constraints) Plan {
	for {
		var p Plan
		switch c.stage {
		case atStorageLimits:
			p = c.checkStorageLimits(ctx, constraints)
		case atViolations:
			p = c.nextViolation()
		case atThreshold:
			c.nextThreshold()
		case atBlocks:
			p = c.checkBlocks(constraints)
		case atGarbage:
			p = c.collectGarbage(constraints)
		case atRanking:
			p = c.rankPods(ctx, constraints)
		case atChoice:
			p = c.chooseVictim()
		case atEnd:
			return Plan{}
		}
		if p.Action != Wait {
			return p
		}
	}
}

// Apply applies the result of a plan. Finish and Escalate have no result: the next plan follows
// from the eviction in flight.
func (c *Checker) Apply(p Plan, r PlanResult) {
	switch p.Action {
	case CollectGarbage:
		c.applyCollection(r.Collected, r.Done)
	case Evict:
		c.applyEviction(p.Eviction, &r)
	}
}

// checkStorageLimits finds pods above a local-storage limit.
//
// Pods are measured only if the stored usage of one exceeds its limit: measuring reads every
// cgroup of every pod. At 330 cgroups this costs more than everything else in an agent at rest.
func (c *Checker) checkStorageLimits(ctx context.Context, constraints *Constraints) Plan {
	c.stage = atThreshold
	if !c.outcome.Verdict.CheckStorageLimits {
		return Plan{}
	}
	b := constraints.blocks(c.outcome.Snapshot, nil)
	if b.finish != nil {
		c.stage = atStorageLimits
		return Plan{Action: Finish, Inflight: b.finish}
	}
	c.Trace.noteBlock(b.reason)
	policy := c.Machine.Policy()
	if b.reason != "" || len(policy.Violations(c.Pods.Stored())) == 0 {
		return Plan{}
	}
	c.stage, c.violations = atViolations, policy.Violations(c.measure(ctx))
	return Plan{}
}

// nextViolation plans the eviction of the next pod above a local-storage limit. Pods with a limited
// eviction are skipped.
func (c *Checker) nextViolation() Plan {
	for c.nextIndex < len(c.violations) {
		e := &c.violations[c.nextIndex]
		if c.nextIndex++; !c.limitedViolation(&c.outcome, e.Pod) {
			return Plan{Action: Evict, Eviction: e}
		}
	}
	c.stage = atThreshold
	return Plan{}
}

// checkBlocks ends the turn while a step in flight blocks it. If necessary, a soft eviction in
// flight is finished or escalated first.
func (c *Checker) checkBlocks(constraints *Constraints) Plan {
	o := &c.outcome
	b := constraints.blocks(o.Snapshot, o.Verdict.Target)
	switch {
	case b.finish != nil:
		return Plan{Action: Finish, Inflight: b.finish}
	case b.escalate != nil:
		return Plan{Action: Escalate, Inflight: b.escalate, Verdict: &o.Verdict}
	}
	c.Trace.noteBlock(b.reason)
	if o.Blocked = b.reason; b.reason != "" {
		c.endTurn()
		return Plan{}
	}
	c.stage = atGarbage
	return Plan{}
}

// collectGarbage plans a collection before a pod is chosen for a disk threshold.
func (c *Checker) collectGarbage(constraints *Constraints) Plan {
	v := &c.outcome.Verdict
	if v.Target.Signal.Definition().Condition != signals.DiskPressure {
		c.stage = atRanking
		return Plan{}
	}
	begin, ran, done := constraints.Garbage.of(v)
	if begin {
		return Plan{Action: CollectGarbage, Verdict: v}
	}
	c.outcome.garbageAsked = true
	c.applyCollection(ran, done)
	return Plan{}
}

// applyCollection continues with a pod once garbage collection is done and was not enough.
func (c *Checker) applyCollection(ran []signals.Garbage, done bool) {
	o := &c.outcome
	c.Trace.noteCollection(ran, done)
	o.Collected, o.Collecting = ran, !done
	if len(ran) > 0 {
		o.Recovered = c.observeAgain(o.Snapshot, &o.Verdict)
	}
	if c.stage = atRanking; o.Collecting || o.Recovered {
		c.endTurn()
	}
}

// rankPods ranks the pods, unless none may be chosen now. A deleted pod may be the one to evict,
// however small: with the others it holds the shortage.
func (c *Checker) rankPods(ctx context.Context, constraints *Constraints) Plan {
	o := &c.outcome
	if c.notePause(o) {
		c.endTurn()
		return Plan{}
	}
	target := o.Verdict.Target
	o.Candidates = c.measure(ctx)
	o.Ranking = ranking.Rank(o.Candidates, target.Signal, target.Signal.In(c.Machine.Policy().Layout).Measure)
	c.noteGrowth(o)
	if c.evaluateLastEviction(o) {
		c.endTurn()
		return Plan{}
	}
	c.assess(o)
	c.stage = atChoice
	if !constraints.AwaitsDeleted {
		return Plan{}
	}
	first, reason := c.awaitDeleted(o, constraints.Kills)
	if o.Blocked = reason; reason != "" {
		c.endTurn()
		return Plan{}
	}
	if first == nil {
		return Plan{}
	}
	o.endedDeleted = true
	return c.planEviction(*first)
}

// chooseVictim plans the eviction of the next eligible pod of the ranking with an end that helps. If
// the eviction of a pod was limited, only a hog after it is evicted: no other pod is evicted in its
// place.
func (c *Checker) chooseVictim() Plan {
	o := &c.outcome
	for c.nextIndex < len(o.Ranking) {
		r := &o.Ranking[c.nextIndex]
		c.nextIndex++
		if !o.mayChoose(r.Pod) || c.spare(o, r) {
			continue
		}
		if limit := c.limitFor(o, r); limit.By != limiter.None {
			if !c.limited {
				o.noteLimit(limit, r.Pod)
			}
			c.limited = true
			continue
		}
		if c.limited && !c.isHog(o, r) {
			continue
		}
		if p := c.planEviction(r.Candidate); p.Action != Wait || o.Recovered {
			return p
		}
	}
	c.endTurn()
	return Plan{}
}

// planEviction plans the eviction of a pod, unless it is protected or has failed, or the threshold
// is no longer met. The node is observed once more right before this irreversible step.
func (c *Checker) planEviction(candidate signals.Candidate) Plan {
	o := &c.outcome
	if !o.mayChoose(candidate.Pod) {
		return Plan{}
	}
	if o.Recovered = c.observeAgain(o.Snapshot, &o.Verdict); o.Recovered {
		c.endTurn()
		return Plan{}
	}
	target := o.Verdict.Target
	e := c.Machine.Policy().EvictionFor(target, &o.Snapshot.Node[target.Signal], candidate)
	e.Explanation = o.explanation(candidate.Pod)
	return Plan{Action: Evict, Eviction: &e}
}

// applyEviction applies the result of an eviction. After a failure the next pod is tried, unless
// the error ends the choice.
func (c *Checker) applyEviction(e *eviction.Eviction, r *PlanResult) {
	o, aboveLimit := &c.outcome, c.stage == atViolations
	c.Trace.noteAttempt(r)
	if r.Err != nil {
		o.Failed, o.Inflight = append(o.Failed, Failure{e.Pod, r.Err}), r.Inflight
		switch {
		case !EndsChoice(r.Err):
		case aboveLimit:
			c.stage = atEnd
		default:
			c.noteServed()
			c.endTurn()
		}
		return
	}
	o.Evicted, o.Inflight, o.Result, o.DryRun, o.EndedByStorageLimit = e, r.Inflight, &r.Eviction, r.DryRun, aboveLimit
	c.noteServed()
	if aboveLimit {
		c.stage = atEnd
		return
	}
	c.endTurn()
}

// observeAgain observes the node once more, and reports whether the threshold is no longer met, or
// exhaustion is no longer imminent.
func (c *Checker) observeAgain(s *signals.Snapshot, v *eviction.Verdict) (recovered bool) {
	c.seen = signals.Observations{}
	c.Observer.Observe(&c.seen, c.Machine.Observes(s.Kind))
	c.Trace.noteSeen(&c.seen)
	return !c.Machine.StillMet(v, &c.seen) || !c.Machine.StillImminent(s, &c.seen)
}
