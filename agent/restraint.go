package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// Consumers tells who holds the node's memory.
type Consumers interface {
	// Consumers returns them, the largest first. What one holds may be a part of what
	// another does.
	Consumers() []signals.Consumer
}

// clear forgets what evictions have led to for conditions that are over.
func (c *Checker) clear(v *eviction.Verdict) {
	for condition := range signals.Condition(signals.ConditionCount) {
		if !v.Conditions.Has(condition) {
			c.Limiter.Clear(condition)
		}
	}
}

// observed is what was seen last of a signal: after waste was collected, if it was.
func (c *Checker) observed(o *Outcome, s signals.Signal) *signals.Observation {
	if len(o.Collected) > 0 && c.seen[s].Known {
		return &c.seen[s]
	}
	return &o.Snapshot.Node[s]
}

// urgent reports whether bounds and back-offs are overridden: what a hard threshold
// is about is exhausted, or memory is about to be.
func (c *Checker) urgent(o *Outcome) bool {
	t := o.Verdict.Target
	return t.Hard() && (t.Exhausted(c.observed(o, t.Signal)) || t.Signal.OfMemory() && c.Machine.Imminent(o.Snapshot) != 0)
}

// pauses reports whether pods do not have to be measured, since evictions have
// stopped to help and nothing is exhausted.
func (c *Checker) pauses(o *Outcome) bool {
	hold := c.Limiter.Ineffective(o.Verdict.Target.Signal.Definition().Condition, o.Snapshot.At)
	if hold.By == limiter.None || c.urgent(o) {
		return false
	}
	o.spare(hold, nil)
	return true
}

// hold is why a pod is spared; the zero Hold if it is not.
func (c *Checker) hold(o *Outcome, r *ranking.Ranked) limiter.Limit {
	if c.Limiter == nil {
		return limiter.Limit{}
	}
	urgent, now := c.urgent(o), o.Snapshot.At
	if hold := c.Limiter.Spent(r.Pod.Namespace, urgent, now); hold.By != limiter.None {
		return hold
	}
	if hold := c.Limiter.Ineffective(o.Verdict.Target.Signal.Definition().Condition, now); hold.By != limiter.None && !(urgent && c.lasts(o, r)) {
		return hold
	}
	if urgent {
		return limiter.Limit{}
	}
	return c.Limiter.RestartLoop(r.Pod.Owner, now)
}

// isHog reports whether a pod holds all that is missing, and more than it requested:
// its end alone relieves the node, and the pod itself is the cause.
func (c *Checker) isHog(o *Outcome, r *ranking.Ranked) bool {
	t := o.Verdict.Target
	return r.Key.Exceeds && r.Key.Usage >= t.Missing(c.observed(o, t.Signal))
}

// lasts reports whether the end of a hog would help although evictions have stopped
// to: what is held outside of pods grows no more.
func (c *Checker) lasts(o *Outcome, r *ranking.Ranked) bool {
	if !c.isHog(o, r) {
		return false
	}
	sig := o.Verdict.Target.Signal
	seen := sight(c.observed(o, sig), o.Ranking)
	return c.Limiter.Lasts(sig, r.Key.Usage, o.Snapshot.At, &seen)
}

// spare notes the first hold of a choice: of more pods than one unless it is an
// owner's.
func (o *Outcome) spare(hold limiter.Limit, pod *signals.Pod) {
	if o.Limit, o.SparedPod = hold, nil; hold.By == limiter.Owner {
		o.SparedPod = pod
	}
}

// sparesAboveLimit reports whether a pod above a local-storage limit is spared.
func (c *Checker) sparesAboveLimit(o *Outcome, pod *signals.Pod) bool {
	hold := c.Limiter.Spent(pod.Namespace, false, o.Snapshot.At)
	if hold.By == limiter.None {
		hold = c.Limiter.RestartLoop(pod.Owner, o.Snapshot.At)
	}
	if hold.By == limiter.None {
		return false
	}
	o.spare(hold, pod)
	return true
}

// judge asks, before the next pod is chosen for a condition, whether the last
// eviction for it has helped, and reports whether nobody is chosen for now.
func (c *Checker) judge(o *Outcome) (held bool) {
	target := o.Verdict.Target
	condition := target.Signal.Definition().Condition
	last := c.Limiter.Awaiting(condition)
	if last == nil {
		return false
	}
	now := c.observed(o, last.Signal)
	if !now.Known {
		return false // it stays open
	}
	ranked := o.Ranking
	if last.Signal != target.Signal {
		ranked = ranking.Rank(o.Candidates, last.Signal, last.Signal.In(c.Machine.Policy().Layout).Measure)
	}
	seen := sight(now, ranked)
	o.Limit = c.Limiter.Judge(condition, o.Snapshot.At, &seen)
	o.LimitBegun = o.Limit.By != limiter.None
	return o.LimitBegun
}

// sight is what was seen of a resource.
func sight(of *signals.Observation, ranked []ranking.Ranked) limiter.Sight {
	s := limiter.Sight{Left: of.Available, Total: of.Capacity, Shares: make([]limiter.Share, len(ranked))}
	for i := range ranked {
		s.Shares[i] = limiter.Share{UID: ranked[i].Pod.UID, Used: ranked[i].Key.Usage, Known: !ranked[i].Key.NoStats}
	}
	return s
}

// Spend has the restraint remember the eviction of an outcome that was not only
// rehearsed. It comes once, after the look.
func (c *Checker) Spend(o *Outcome) {
	e := o.Evicted
	if c.Limiter == nil || e == nil || o.DryRun {
		return
	}
	c.Limiter.Evicted(e.Pod.Namespace, e.Pod.Owner, o.Snapshot.At)
	if o.EndedByLimit {
		return // there is no amount to wait for
	}
	sig := o.Verdict.Target.Signal
	before := &c.seen[sig] // right before the kill
	if !before.Known {
		before = &o.Snapshot.Node[sig]
	}
	kill := limiter.Kill{Signal: sig, UID: e.Pod.UID, Before: sight(before, o.Ranking)}
	for i := range o.Ranking {
		if o.Ranking[i].Pod == e.Pod {
			kill.Expected = o.Ranking[i].Key.Usage
		}
	}
	c.Limiter.Expect(&kill)
}

// LimitReason says in words who is spared, and why; empty if nobody is.
func (o *Outcome) LimitReason() string {
	if o.Limit.By == limiter.None {
		return ""
	}
	text := o.Limit.Explain(o.Snapshot.At)
	if len(o.Ranking) > 0 && !o.LimitBegun { // above a limit each pod is its own fault
		text += "; no pod behind it exceeds its request and holds all that is missing"
	}
	if o.SparedPod == nil {
		return text
	}
	return o.SparedPod.Key() + ": " + text
}

// describeHold fills in who is spared and, where evictions have stopped to help,
// who holds the memory.
func (a *Agent) describeHold(d *Decision, o *Outcome) {
	d.LimitedBy, d.Reason = o.Limit.By.String(), o.LimitReason()
	if o.SparedPod != nil {
		d.Pod, d.UID = o.SparedPod.Key(), o.SparedPod.UID
	}
	if d.Decision != Ineffective || o.Limit.Condition != signals.MemoryPressure || a.consumers == nil {
		return
	}
	d.MemoryConsumers = a.consumers.Consumers()
}

// withdraw has the restraint forget a soft eviction that did not happen.
func (a *Agent) withdraw(e *inflight.Eviction) {
	pod := e.Of.Pod
	a.checker.Limiter.Withdrawn(pod.Namespace, pod.Owner, e.Since)
	a.checker.Limiter.Cancel(pod.UID)
}

// evictionsPaused reports whether extra looks would be in vain: memory is short, and
// evictions for it have stopped to help. A soft eviction has been counted already, and can
// still be cut short.
func (a *Agent) evictionsPaused(now time.Time) bool {
	if soft := a.inflight[inflight.Soft]; soft != nil && soft.State() == inflight.Terminating {
		return false
	}
	return a.machine.Conditions().Has(signals.MemoryPressure) && a.checker.Limiter.Ineffective(signals.MemoryPressure, now).By != limiter.None
}

// saveLimiter hands over what evictions have led to, where that has changed.
func (a *Agent) saveLimiter() {
	if a.limiterSaved != nil && a.checker.Limiter.Moved() {
		a.limiterSaved(a.checker.Limiter.Save())
	}
}
