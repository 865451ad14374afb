package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// A Checker decides what one check of the node leads to. It reads the node through its
// ports and returns plans; it touches nothing:
//
//	observe -> evaluate -> limits? -> blocked? -> garbage to collect? -> measure, rank, limit -> Evict
//
// [Checker.Begin] evaluates a snapshot, [Checker.Next] returns the next [Plan], and
// [Checker.Apply] takes its [Result], until the plan is to Wait. `simulate` runs the
// same Checker over a scenario.
type Checker struct {
	Machine  *eviction.Machine
	Observer Observer
	Pods     Pods
	// Limiter, if set, may spare the pod that would be chosen, or all of them.
	Limiter *limiter.Limiter
	// GivesWay: a threshold that nothing can be done for gives way to a hard one behind
	// it.
	GivesWay bool

	round
	outcome Outcome              // of the last check: a new one for each would be an allocation
	passed  []Outcome            // of thresholds that nothing could be done for
	seen    signals.Observations // when the node was last observed again, before a pod is chosen
	recent  signals.ConditionSet // the one that a pod was evicted for last, while anything is met
	deleted deletions
}

// A round is how far a check has come.
type round struct {
	stage      stage
	first      eviction.Verdict     // as it was evaluated
	at         eviction.Verdict     // of the threshold that is acted for
	before     signals.ConditionSet // recent, when the check began
	turn       int                  // 0: conditions that no pod was evicted for last; 1: that one
	begun      bool                 // the turn has begun
	soft       bool                 // the soft threshold had its turn
	violations []eviction.Eviction
	next       int  // of the violations, or of the ranking
	spared     bool // a pod before the next one was spared
}

// A stage is a step of a check.
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

// Begin evaluates the thresholds by a snapshot of observations. The outcome is valid
// until the next check.
func (c *Checker) Begin(s *signals.Snapshot) *Outcome {
	c.outcome = Outcome{Snapshot: s, Verdict: c.Machine.Evaluate(s)}
	o := &c.outcome
	c.clear(&o.Verdict)
	c.deleted.until = time.Time{}
	if o.Verdict.Target == nil && !o.Verdict.CheckLimits { // nearly always: the rest costs nothing
		c.settle()
		return o
	}
	c.round = round{first: o.Verdict, at: o.Verdict, before: c.recent}
	c.passed = c.passed[:0]
	return o
}

// Next returns what to do next. The plan is valid until its result was applied.
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

// Apply takes the result of a plan. What was finished or escalated is seen by the next
// look at what is under way.
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
// Measuring reads every cgroup of every pod, which at 330 cgroups costs more than
// all else that an agent at rest does: only once a limit is passed.
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

// violation evicts the next pod above a limit that is not spared.
func (c *Checker) violation() Plan {
	for c.next < len(c.violations) {
		e := &c.violations[c.next]
		if c.next++; !c.sparesAboveLimit(&c.outcome, e.Pod) {
			return Plan{Action: Evict, Eviction: e}
		}
	}
	c.stage = atThreshold
	return Plan{}
}

// nextThreshold turns to the next threshold to act for. With GivesWay the next hard one
// has its turn where nothing can be done for the one before: what keeps that one from
// being acted for, for long perhaps, is no reason to wait with another. The condition
// that a pod was evicted for last comes after the others, a soft threshold after all: an
// owner that brings a pod back as soon as it is evicted must not keep the others waiting.
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
	default: // all of them hard
		*o, o.Passed = c.passed[0], c.passed[1:]
		c.stage = atEnd
	}
}

// settle ends a check that has no threshold to act for.
func (c *Checker) settle() {
	if c.outcome.Snapshot.Kind == signals.Periodic {
		c.recent = 0
	}
	c.stage = atEnd
}

// nextHard moves to the next hard threshold, and reports whether there is one.
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

// turnTo begins with another threshold.
func (c *Checker) turnTo(v eviction.Verdict) {
	o := &c.outcome
	*o = Outcome{Snapshot: o.Snapshot, Verdict: v, EndedByLimit: o.EndedByLimit}
	c.stage, c.next, c.spared = atBlock, 0, false
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

// block waits for what is under way, which may have to be sped up first.
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

// collect makes room on disks before a pod is chosen for them.
func (c *Checker) collect(u *Underway) Plan {
	v := &c.outcome.Verdict
	if v.Target.Signal.Definition().Condition != signals.DiskPressure {
		c.stage = atRanking
		return Plan{}
	}
	begin, ran, done := u.Garbage.of(v)
	if begin {
		return Plan{Action: CollectGarbage, Verdict: v, Garbage: v.Garbage}
	}
	c.outcome.asked = true
	c.collected(ran, done)
	return Plan{}
}

// collected goes on with a pod where collecting is done and was not enough.
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

// rank orders the pods, and finds out whether one of them may be chosen at all.
func (c *Checker) rank(ctx context.Context, u *Underway) Plan {
	o := &c.outcome
	if c.pauses(o) {
		c.pass()
		return Plan{}
	}
	target := o.Verdict.Target
	o.Candidates = c.Pods.Measure(ctx)
	o.Ranking = ranking.Rank(o.Candidates, target.Signal, target.Signal.In(c.Machine.Policy().Layout).Measure)
	if c.judge(o) {
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

// choose evicts the next pod of the ranking that can be. Behind one that is spared
// only a hog goes: a bystander must not pay for it.
func (c *Checker) choose() Plan {
	o := &c.outcome
	for c.next < len(o.Ranking) {
		r := &o.Ranking[c.next]
		c.next++
		if !o.mayChoose(r.Pod) {
			continue
		}
		if hold := c.hold(o, r); hold.By != limiter.None {
			if !c.spared {
				o.spare(hold, r.Pod)
			}
			c.spared = true
			continue
		}
		if c.spared && !c.isHog(o, r) {
			continue
		}
		if p := c.try(r.Candidate); p.Action != Wait || o.Recovered {
			return p
		}
	}
	c.pass()
	return Plan{}
}

// try evicts a pod unless it is protected or has failed, or the threshold is no longer
// met: the node is observed once more before what can not be undone.
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

// evicted notes the result of an eviction. After a failure the next pod is tried, unless
// no other one must be.
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

// recovered observes once more.
func (c *Checker) recovered(s *signals.Snapshot, v *eviction.Verdict) bool {
	c.seen = signals.Observations{}
	c.Observer.Observe(&c.seen, c.Machine.Observes(s.Kind))
	return !c.Machine.StillMet(v, &c.seen) || !c.Machine.StillImminent(s, &c.seen)
}
