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
//	observe -> evaluate -> limits? -> blocked? -> garbage to collect? -> measure, rank, limit -> Evict
//
// [Checker.Begin] evaluates a snapshot, [Checker.Next] returns the next [Plan], and
// [Checker.Apply] takes its [Result], until the plan is to Wait. The command `simulate` runs the
// same Checker over a scenario.
type Checker struct {
	Machine  *eviction.Machine
	Observer Observer
	Pods     Pods
	// Limiter, if set, may limit the eviction of the pod that would be chosen, or of all pods.
	Limiter *limiter.Limiter
	// GivesWay: if nothing can be done for a threshold, the next hard one is handled.
	GivesWay bool

	round
	outcome Outcome              // of the last check; reused, since a new one would be an allocation
	passed  []Outcome            // of thresholds without a possible step
	seen    signals.Observations // last observation before a pod is chosen
	recent  signals.ConditionSet // condition of the last eviction, as long as any threshold is met
	deleted deletions
}

// round is the progress of a check.
type round struct {
	stage      stage
	first      eviction.Verdict     // as evaluated
	at         eviction.Verdict     // of the threshold under work
	before     signals.ConditionSet // recent, at the start of the check
	turn       int                  // 0: conditions other than that of the last eviction; 1: that condition
	begun      bool                 // the turn has begun
	soft       bool                 // the soft threshold had its turn
	violations []eviction.Eviction
	next       int  // index into the violations or the ranking
	limited    bool // the eviction of an earlier pod was limited
}

// stage is a step of a check.
type stage uint8

const (
	atLimits stage = iota
	atViolations
	atThreshold
	atBlock
	atGarbage
	atRanking
	atChoice
	atEnd
)

// Begin evaluates the thresholds for a snapshot. The outcome is valid until the next check.
func (c *Checker) Begin(s *signals.Snapshot) *Outcome {
	c.outcome = Outcome{Snapshot: s, Verdict: c.Machine.Evaluate(s)}
	o := &c.outcome
	c.clear(&o.Verdict)
	c.deleted.until = time.Time{}
	if o.Verdict.Target == nil && !o.Verdict.CheckLimits { // the usual case: the rest costs nothing
		c.settle()
		return o
	}
	c.round = round{first: o.Verdict, at: o.Verdict, before: c.recent}
	c.passed = c.passed[:0]
	return o
}

// Next returns the next plan. It is valid until its result was applied.
func (c *Checker) Next(ctx context.Context, u *Underway) Plan {
	for {
		var p Plan
		switch c.stage {
		case atLimits:
			p = c.limits(ctx, u)
		case atViolations:
			p = c.violation()
		case atThreshold:
			c.nextThreshold()
		case atBlock:
			p = c.block(u)
		case atGarbage:
			p = c.collect(u)
		case atRanking:
			p = c.rank(ctx, u)
		case atChoice:
			p = c.choose()
		case atEnd:
			return Plan{}
		}
		if p.Action != Wait {
			return p
		}
	}
}

// Apply takes the result of a plan. Finish and Escalate have no result: the next plan follows
// from the eviction in flight.
func (c *Checker) Apply(p Plan, r Result) {
	switch p.Action {
	case CollectGarbage:
		c.collected(r.Collected, r.Done)
	case Evict:
		c.evicted(p.Eviction, &r)
	}
}

// limits finds pods above a local-storage limit.
//
// Measuring happens only after a limit is passed: it reads every cgroup of every pod. At 330
// cgroups this costs more than everything else in an agent at rest.
func (c *Checker) limits(ctx context.Context, u *Underway) Plan {
	c.stage = atThreshold
	if !c.outcome.Verdict.CheckLimits {
		return Plan{}
	}
	b := u.blocks(c.outcome.Snapshot, nil)
	if b.finish != nil {
		c.stage = atLimits
		return Plan{Action: Finish, Inflight: b.finish}
	}
	policy := c.Machine.Policy()
	if b.reason != "" || len(policy.Violations(c.Pods.Stored())) == 0 {
		return Plan{}
	}
	c.stage, c.violations = atViolations, policy.Violations(c.Pods.Measure(ctx))
	return Plan{}
}

// violation evicts the next pod above a limit, unless its eviction is limited.
func (c *Checker) violation() Plan {
	for c.next < len(c.violations) {
		e := &c.violations[c.next]
		if c.next++; !c.limitedViolation(&c.outcome, e.Pod) {
			return Plan{Action: Evict, Eviction: e}
		}
	}
	c.stage = atThreshold
	return Plan{}
}

// nextThreshold moves to the next threshold to act for. With GivesWay, the next hard threshold
// has its turn if nothing can be done for the one before. The first one may be blocked for long,
// which must not delay the others. The condition of the last eviction comes after the others, and
// a soft threshold comes last. Otherwise an owner that replaces each evicted pod at once would
// starve the other thresholds.
func (c *Checker) nextThreshold() {
	o := &c.outcome
	switch {
	case c.first.Target == nil:
		c.settle()
	case !c.GivesWay:
		c.stage, c.next = atBlock, 0
	case c.nextHard():
		c.turnTo(c.at)
	case !c.first.Target.Hard() && !c.soft:
		c.soft = true
		c.turnTo(c.first)
	default: // all of them are hard
		*o, o.Passed = c.passed[0], c.passed[1:]
		c.stage = atEnd
	}
}

// settle ends a check without a threshold to act for.
func (c *Checker) settle() {
	if c.outcome.Snapshot.Kind == signals.Periodic {
		c.recent = 0
	}
	c.stage = atEnd
}

// nextHard moves to the next hard threshold. It returns false if there is none.
func (c *Checker) nextHard() bool {
	for ; c.turn < 2; c.turn++ {
		find := c.Machine.NextHard
		if !c.begun {
			find = c.Machine.FirstHard
		}
		for c.begun = true; find(&c.at); find = c.Machine.NextHard {
			if c.before.Has(c.at.Target.Signal.Definition().Condition) == (c.turn == 1) {
				return true
			}
		}
		c.begun = false
	}
	return false
}

// turnTo starts the turn of another threshold.
func (c *Checker) turnTo(v eviction.Verdict) {
	o := &c.outcome
	*o = Outcome{Snapshot: o.Snapshot, Verdict: v, EndedByLimit: o.EndedByLimit}
	c.stage, c.next, c.limited = atBlock, 0, false
}

// pass ends the turn of a threshold.
func (c *Checker) pass() {
	o := &c.outcome
	switch {
	case !c.GivesWay:
	case c.soft:
		o.Passed = c.passed
	case !o.idle():
		o.Passed, o.OthersWait = c.passed, c.turn == 0 && c.before != 0
	default:
		c.passed = append(c.passed, *o)
		c.stage = atThreshold
		return
	}
	c.stage = atEnd
}

// block waits for steps in flight, after escalating them if necessary.
func (c *Checker) block(u *Underway) Plan {
	o := &c.outcome
	b := u.blocks(o.Snapshot, o.Verdict.Target)
	switch {
	case b.finish != nil:
		return Plan{Action: Finish, Inflight: b.finish}
	case b.escalate != nil:
		return Plan{Action: Escalate, Inflight: b.escalate, Verdict: &o.Verdict}
	case b.reason != "":
		o.Blocked = b.reason
		c.pass()
		return Plan{}
	}
	c.stage = atGarbage
	return Plan{}
}

// collect frees disk space before a pod is chosen for a disk threshold.
func (c *Checker) collect(u *Underway) Plan {
	v := &c.outcome.Verdict
	if v.Target.Signal.Definition().Condition != signals.DiskPressure {
		c.stage = atRanking
		return Plan{}
	}
	begin, ran, done := u.Garbage.of(v)
	if begin {
		return Plan{Action: CollectGarbage, Verdict: v}
	}
	c.outcome.asked = true
	c.collected(ran, done)
	return Plan{}
}

// collected continues with a pod once garbage collection is done and was not enough.
func (c *Checker) collected(ran []signals.Garbage, done bool) {
	o := &c.outcome
	o.Collected, o.Collecting = ran, !done
	if len(ran) > 0 {
		o.Recovered = c.recovered(o.Snapshot, &o.Verdict)
	}
	if c.stage = atRanking; o.Collecting || o.Recovered {
		c.pass()
	}
}

// rank orders the pods, and checks whether a pod may be chosen at all.
func (c *Checker) rank(ctx context.Context, u *Underway) Plan {
	o := &c.outcome
	if c.pauses(o) {
		c.pass()
		return Plan{}
	}
	target := o.Verdict.Target
	o.Candidates = c.Pods.Measure(ctx)
	o.Ranking = ranking.Rank(o.Candidates, target.Signal, target.Signal.In(c.Machine.Policy().Layout).Measure)
	if c.evaluateLast(o) {
		c.pass()
		return Plan{}
	}
	c.stage = atChoice
	if !u.Pending {
		return Plan{}
	}
	first, reason := c.pending(o, u.Killed)
	if o.Blocked = reason; reason != "" {
		c.pass()
		return Plan{}
	}
	if first == nil {
		return Plan{}
	}
	return c.try(*first)
}

// choose evicts the next eligible pod of the ranking. If the eviction of a pod was limited, only
// a hog after it is evicted: no other pod is evicted in its place.
func (c *Checker) choose() Plan {
	o := &c.outcome
	for c.next < len(o.Ranking) {
		r := &o.Ranking[c.next]
		c.next++
		if !o.mayChoose(r.Pod) {
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
		if p := c.try(r.Candidate); p.Action != Wait || o.Recovered {
			return p
		}
	}
	c.pass()
	return Plan{}
}

// try evicts a pod unless it is protected or has failed, or the threshold is no longer met. The
// node is observed once more right before this irreversible step.
func (c *Checker) try(candidate signals.Candidate) Plan {
	o := &c.outcome
	if !o.mayChoose(candidate.Pod) {
		return Plan{}
	}
	if o.Recovered = c.recovered(o.Snapshot, &o.Verdict); o.Recovered {
		c.pass()
		return Plan{}
	}
	target := o.Verdict.Target
	e := c.Machine.Policy().Evict(target, &o.Snapshot.Node[target.Signal], candidate)
	return Plan{Action: Evict, Eviction: &e}
}

// evicted applies the result of an eviction. After a failure the next pod is tried, unless the
// error ends the choice.
func (c *Checker) evicted(e *eviction.Eviction, r *Result) {
	o, limit := &c.outcome, c.stage == atViolations
	if r.Err != nil {
		o.Failed = append(o.Failed, Failure{e.Pod, r.Err})
		switch {
		case !endsChoice(r.Err):
		case limit:
			c.stage = atEnd
		default:
			c.pass()
		}
		return
	}
	o.Evicted, o.Inflight, o.Killed, o.DryRun, o.EndedByLimit = e, r.Inflight, &r.Killed, r.DryRun, limit
	c.recent = 0
	if t := o.Verdict.Target; t != nil {
		c.recent.Add(t.Signal.Definition().Condition)
	}
	if limit {
		c.stage = atEnd
		return
	}
	c.pass()
}

// recovered observes the node once more, and reports whether the threshold is no longer met.
func (c *Checker) recovered(s *signals.Snapshot, v *eviction.Verdict) bool {
	c.seen = signals.Observations{}
	c.Observer.Observe(&c.seen, c.Machine.Observes(s.Kind))
	return !c.Machine.StillMet(v, &c.seen) || !c.Machine.StillImminent(s, &c.seen)
}
