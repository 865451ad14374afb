package agent

import (
	"context"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// A Cycle looks at the node once and does what follows: observe, evaluate and
// decide, reclaim, rank, evict at most one pod. It is the one place where these
// steps stand in their order.
type Cycle struct {
	Machine   *eviction.Machine
	Observer  Observer
	Pods      Pods
	Reclaimer Reclaimer
	Killer    Killer
	// StandBy, if set, may hold an action back and says why; empty goes ahead.
	// Without a target it is about local-storage limits.
	StandBy func(*signals.Snapshot, *eviction.Verdict, *eviction.Threshold) (reason string)
	// Pending, if set, may hold the choice of a pod back because others are
	// ending already, or say which of those has to end at once.
	Pending func(*Outcome) (first *signals.Candidate, reason string)
	// Restraint, if set, may spare the pod that would be chosen, or all of them.
	Restraint *limiter.Restraint
	// GivesWay: a target that nothing can be done for gives way to a hard one behind it.
	GivesWay bool

	seen    signals.Observations // on the last second look
	passed  []Outcome            // of targets that nothing could be done for
	recent  signals.ConditionSet // the one that a pod was evicted for last, while anything is met
	outcome Outcome              // of the last look: a new one for each would be an allocation
}

// Look runs the cycle on a snapshot whose time, kind and rates are set; the
// node's observations are filled in. The outcome is valid until the next look.
func (c *Cycle) Look(ctx context.Context, s *signals.Snapshot) *Outcome {
	c.Observer.Observe(&s.Node, c.Machine.Observes(s.Kind))
	return c.Decide(ctx, s)
}

// Decide runs the cycle from the snapshot's observations on.
func (c *Cycle) Decide(ctx context.Context, s *signals.Snapshot) *Outcome {
	o := &c.outcome
	*o = Outcome{Snapshot: s, Verdict: c.Machine.Look(s)}
	c.clear(&o.Verdict)
	if o.Verdict.CheckLimits && c.standBy(o, nil) == "" {
		over := c.enforceLimits(ctx, o)
		if o.EndedByLimit = o.Evicted != nil; over {
			return o
		}
	}
	switch {
	case o.Verdict.Target != nil:
		c.pursue(ctx, o)
	case s.Kind == signals.Regular:
		c.recent = 0
	}
	return o
}

// pursue acts for the target. With GivesWay the next hard threshold has its turn where
// nothing can be done for the one before: what keeps that one from being acted for, for
// long perhaps, is no reason to wait with another. The condition that a pod was evicted
// for last comes after the others, a soft target after all: an owner that brings a pod
// back as soon as it is evicted must not keep the others waiting.
func (c *Cycle) pursue(ctx context.Context, o *Outcome) {
	if !c.GivesWay {
		c.act(ctx, o)
		return
	}
	first, recent := o.Verdict, c.recent
	c.passed = c.passed[:0]
	for _, turn := range [...]bool{false, true} {
		for more := c.Machine.FirstHard(&o.Verdict); more; more = c.Machine.NextHard(&o.Verdict) {
			if recent.Has(o.Verdict.Target.Signal.Definition().Condition) != turn {
				continue
			}
			o.turnTo(o.Verdict)
			if c.act(ctx, o); !o.idle() {
				o.Passed, o.Waits = c.passed, !turn && recent != 0
				return
			}
			c.passed = append(c.passed, *o)
		}
	}
	if !first.Target.Hard() {
		o.turnTo(first)
		c.act(ctx, o)
		o.Passed = c.passed
		return
	}
	*o, o.Passed = c.passed[0], c.passed[1:]
}

// turnTo begins with another target.
func (o *Outcome) turnTo(v eviction.Verdict) {
	*o = Outcome{Snapshot: o.Snapshot, Verdict: v, EndedByLimit: o.EndedByLimit}
}

// act makes room for the target or chooses a pod for it, unless something else has to
// end before.
func (c *Cycle) act(ctx context.Context, o *Outcome) {
	target := o.Verdict.Target
	if o.StoodBy = c.standBy(o, target); o.StoodBy != "" {
		return
	}
	if c.makeRoom(ctx, o) || c.pauses(o) {
		return
	}
	o.Candidates = c.Pods.Measure(ctx)
	o.Ranking = ranking.Rank(o.Candidates, target.Signal, target.Signal.In(c.Machine.Policy().Layout).Measure)
	if !c.judge(o) {
		c.choose(ctx, o)
	}
}

func (c *Cycle) standBy(o *Outcome, target *eviction.Threshold) (reason string) {
	if c.StandBy == nil {
		return ""
	}
	return c.StandBy(o.Snapshot, &o.Verdict, target)
}

// makeRoom collects waste, and reports whether no pod is to be chosen in this look:
// it goes on, or was enough.
func (c *Cycle) makeRoom(ctx context.Context, o *Outcome) (done bool) {
	if o.Reclaimed, o.Reclaiming = c.reclaim(ctx, o); o.Reclaiming {
		return true
	}
	if len(o.Reclaimed) > 0 {
		o.Recovered = c.recovered(o.Snapshot, &o.Verdict)
	}
	return o.Recovered
}

func (c *Cycle) reclaim(ctx context.Context, o *Outcome) (ran []signals.Reclaimer, underWay bool) {
	if o.Verdict.Target.Signal.Definition().Condition != signals.DiskPressure {
		return nil, false
	}
	ran, done := c.Reclaimer.Reclaim(ctx, &o.Verdict)
	return ran, !done
}

// choose evicts the first pod of the ranking that can be. Behind one that is spared
// only a hog goes: a bystander must not pay for it.
func (c *Cycle) choose(ctx context.Context, o *Outcome) {
	if c.Pending != nil {
		first, reason := c.Pending(o)
		if o.StoodBy = reason; reason != "" || first != nil && c.try(ctx, o, *first) {
			return
		}
	}
	spared := false
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if !o.mayChoose(r.Pod) {
			continue
		}
		if hold := c.hold(o, r); hold.By != limiter.None {
			if !spared {
				o.spare(hold, r.Pod)
			}
			spared = true
			continue
		}
		if (!spared || c.isHog(o, r)) && c.try(ctx, o, r.Candidate) {
			return
		}
	}
}

// try evicts a pod unless it is protected or has failed, and reports whether
// the choice is over.
func (c *Cycle) try(ctx context.Context, o *Outcome, candidate signals.Candidate) (over bool) {
	if !o.mayChoose(candidate.Pod) {
		return false
	}
	if o.Recovered = c.recovered(o.Snapshot, &o.Verdict); o.Recovered {
		return true
	}
	target := o.Verdict.Target
	return c.evict(ctx, o, c.Machine.Policy().Evict(target, &o.Snapshot.Node[target.Signal], candidate))
}

// recovered observes once more, before what can not be undone.
func (c *Cycle) recovered(s *signals.Snapshot, v *eviction.Verdict) bool {
	c.seen = signals.Observations{}
	c.Observer.Observe(&c.seen, c.Machine.Observes(s.Kind))
	return !c.Machine.StillMet(v, &c.seen) || !c.Machine.StillDoomed(s, &c.seen)
}

// enforceLimits evicts the first pod above a local-storage limit that can be, and
// reports whether the look is over.
//
// Measuring reads every cgroup of every pod, which at 330 cgroups costs more than
// all else that an agent at rest does: only once a limit is passed.
func (c *Cycle) enforceLimits(ctx context.Context, o *Outcome) (over bool) {
	if len(c.Machine.Policy().Violations(c.Pods.Stored())) == 0 {
		return false
	}
	pods := c.Pods.Measure(ctx)
	for _, e := range c.Machine.Policy().Violations(pods) {
		if !c.sparesAboveLimit(o, e.Pod) && c.evict(ctx, o, e) {
			return true
		}
	}
	return false
}

// evict has a pod evicted, and reports whether the choice is over.
func (c *Cycle) evict(ctx context.Context, o *Outcome, e eviction.Eviction) (over bool) {
	if err := c.Killer.Kill(ctx, &e); err != nil {
		o.Failed = append(o.Failed, Failure{e.Pod, err})
		return endsChoice(err)
	}
	o.Evicted, c.recent = &e, 0
	if t := o.Verdict.Target; t != nil {
		c.recent.Add(t.Signal.Definition().Condition)
	}
	return true
}

// An Outcome is what one look led to.
type Outcome struct {
	Snapshot *signals.Snapshot
	Verdict  eviction.Verdict
	// EndedByLimit: a pod above a local-storage limit was evicted, and the
	// target was not acted for.
	EndedByLimit bool
	StoodBy      string // why the target was not acted for, empty if it was
	Reclaimed    []signals.Reclaimer
	Reclaiming   bool // room is being made; a later look goes on
	Recovered    bool // found on a second look, before a pod was evicted
	Candidates   []signals.Candidate
	Ranking      []ranking.Ranked
	Evicted      *eviction.Eviction
	Rehearsed    bool // it was not: the agent is disarmed
	Failed       []Failure
	// Held is why the first pod that may be evicted is spared; Spared is that pod, nil
	// if the hold is of more than one. Begun: the hold has begun with this look.
	Held   limiter.Hold
	Spared *signals.Pod
	Begun  bool
	// Passed are the outcomes of other hard targets that nothing could be done for.
	Passed []Outcome
	// Waits: another condition, which a pod was evicted for before, has had no turn.
	Waits bool
}

// Acted reports whether anything was done or tried.
func (o *Outcome) Acted() bool {
	return o.Evicted != nil || len(o.Failed) > 0 || len(o.Reclaimed) > 0
}

// idle reports whether no pod was ended for the target, nor one tried so that no other
// must be tried in the look. Room that is being made is no reason to wait with another
// threshold.
func (o *Outcome) idle() bool {
	n := len(o.Failed)
	failed := n > 0 && o.Verdict.Target.Hard() && endsChoice(o.Failed[n-1].Err)
	return o.Evicted == nil && !o.Recovered && !failed
}

// mayChoose reports whether a pod may be evicted and has not been tried yet.
func (o *Outcome) mayChoose(p *signals.Pod) bool {
	return p.Protection == signals.Unprotected && !o.hasFailed(p)
}

func (o *Outcome) hasFailed(p *signals.Pod) bool {
	for _, f := range o.Failed {
		if f.Pod == p || f.Pod.UID == p.UID {
			return true
		}
	}
	return false
}

// A Failure is a pod that could not be evicted.
type Failure struct {
	Pod *signals.Pod
	Err error
}
