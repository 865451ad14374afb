package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// forgetEndedConditions drops the limiter's results of evictions for conditions that are over.
func (c *Checker) forgetEndedConditions(v *eviction.Verdict) {
	for condition := range signals.Condition(signals.ConditionCount) {
		if !v.Conditions.Has(condition) {
			c.Limiter.Clear(condition)
		}
	}
}

// observed returns the last observation of a signal: the one after garbage collection, if there
// was any.
func (c *Checker) observed(o *Outcome, s signals.Signal) *signals.Observation {
	if len(o.Collected) > 0 && c.seen[s].Known {
		return &c.seen[s]
	}
	return &o.Snapshot.Node[s]
}

// urgent reports whether budgets and backoffs are overridden. They are if the resource of a hard
// threshold is exhausted, or exhaustion of memory is imminent.
func (c *Checker) urgent(o *Outcome) bool {
	t := o.Verdict.Target
	return t.Hard() && (t.Exhausted(c.observed(o, t.Signal)) || t.Signal.OfMemory() && c.Machine.Imminent(o.Snapshot) != 0)
}

// notePause reports whether pods need no measurement, since evictions have no effect and nothing is
// exhausted. The limit is then that of the outcome.
func (c *Checker) notePause(o *Outcome) (paused bool) {
	limit := c.Limiter.Ineffective(o.Verdict.Target.Signal.Definition().Condition, o.Snapshot.At)
	if limit.By == limiter.None || c.urgent(o) {
		return false
	}
	o.noteLimit(limit, nil)
	return true
}

// limitFor returns the limit on the eviction of a pod, and the zero Limit if there is none.
func (c *Checker) limitFor(o *Outcome, r *ranking.Ranked) limiter.Limit {
	if c.Limiter == nil {
		return limiter.Limit{}
	}
	urgent, now := c.urgent(o), o.Snapshot.At
	if limit := c.Limiter.Spent(r.Pod.Namespace, urgent, now); limit.By != limiter.None {
		return limit
	}
	if limit := c.Limiter.Ineffective(o.Verdict.Target.Signal.Definition().Condition, now); limit.By != limiter.None && !(urgent && c.hasLastingEffect(o, r)) {
		return limit
	}
	if urgent {
		return limiter.Limit{}
	}
	return c.Limiter.RestartLoop(r.Pod.Owner, now)
}

// isHog reports whether a pod holds the whole missing amount, and more than its request. Its end
// alone relieves the node, and the pod itself is the cause.
func (c *Checker) isHog(o *Outcome, r *ranking.Ranked) bool {
	t := o.Verdict.Target
	return r.Key.Exceeds && r.Relief.Amount >= t.Missing(c.observed(o, t.Signal))
}

// hasLastingEffect reports whether the end of a hog would help after ineffective evictions: usage
// outside of pods does not grow any more.
func (c *Checker) hasLastingEffect(o *Outcome, r *ranking.Ranked) bool {
	if !c.isHog(o, r) {
		return false
	}
	sig := o.Verdict.Target.Signal
	seen := limiterView(c.observed(o, sig), o.Ranking)
	c.Trace.noteChange()
	return c.Limiter.HasLastingEffect(sig, r.Relief.Amount, o.Snapshot.At, &seen)
}

// noteLimit stores the first limit on evictions in a choice. It covers more than one pod, unless it
// is that of an owner.
func (o *Outcome) noteLimit(limit limiter.Limit, pod *signals.Pod) {
	if o.Limit, o.LimitedPod = limit, nil; limit.By == limiter.Owner {
		o.LimitedPod = pod
	}
}

// limitedViolation reports whether the eviction of a pod above its local-storage limit is limited.
// That limit on evictions is then that of the outcome.
func (c *Checker) limitedViolation(o *Outcome, pod *signals.Pod) bool {
	limit := c.Limiter.Spent(pod.Namespace, false, o.Snapshot.At)
	if limit.By == limiter.None {
		limit = c.Limiter.RestartLoop(pod.Owner, o.Snapshot.At)
	}
	if limit.By == limiter.None {
		return false
	}
	o.noteLimit(limit, pod)
	return true
}

// evaluateLastEviction evaluates the effect of the last eviction for a condition, before the next
// pod is chosen. It reports whether evictions pause now.
func (c *Checker) evaluateLastEviction(o *Outcome) (paused bool) {
	target := o.Verdict.Target
	condition := target.Signal.Definition().Condition
	last := c.Limiter.Awaiting(condition)
	if last == nil {
		return false
	}
	now := c.observed(o, last.Signal)
	if !now.Known {
		return false // decided by a later check
	}
	ranked := o.Ranking
	if last.Signal != target.Signal {
		ranked = ranking.Rank(o.Candidates, last.Signal, last.Signal.In(c.Machine.Policy().Layout).Measure)
	}
	seen := limiterView(now, ranked)
	c.Trace.noteChange()
	o.Limit = c.Limiter.Evaluate(condition, o.Snapshot.At, &seen)
	o.LimitBegun = o.Limit.By != limiter.None
	return o.LimitBegun
}

// limiterView returns the limiter's view of a resource.
func limiterView(of *signals.Observation, ranked []ranking.Ranked) limiter.Observation {
	s := limiter.Observation{Left: of.Available, Total: of.Capacity, Shares: make([]limiter.Share, len(ranked))}
	for i := range ranked {
		r := &ranked[i]
		used := max(r.Key.Usage, r.Relief.Amount)
		s.Shares[i] = limiter.Share{UID: r.Pod.UID, Used: used, Kept: used - r.Relief.Amount, Known: !r.Key.NoStats}
	}
	return s
}

// Spend counts the eviction of an outcome in the limiter, except in dry run. It must be called
// once, after the check.
func (c *Checker) Spend(o *Outcome) {
	e := o.Evicted
	if c.Limiter == nil || e == nil || o.DryRun {
		return
	}
	c.Limiter.Evicted(e.Pod.Namespace, e.Pod.Owner, o.Snapshot.At)
	if o.EndedByStorageLimit {
		return // no amount to wait for
	}
	sig := o.Verdict.Target.Signal
	before := &c.seen[sig] // right before the kill
	if !before.Known {
		before = &o.Snapshot.Node[sig]
	}
	c.Limiter.Expect(&limiter.Kill{Signal: sig, UID: e.Pod.UID, Before: limiterView(before, o.Ranking), Expected: o.reliefOf(e.Pod)})
}

// LimitReason explains the limit of an outcome. It returns an empty string if there is none.
func (o *Outcome) LimitReason() string {
	if o.Limit.By == limiter.None {
		return ""
	}
	text := o.Limit.Explain(o.Snapshot.At)
	if len(o.Ranking) > 0 && !o.LimitBegun && o.Evicted == nil { // above a storage limit, each pod is the cause itself
		text += "; no pod behind it exceeds its request and holds all that is missing"
		if o.CachePod != nil {
			text += ", or it frees less than the page cache of " + o.CachePod.Key()
		}
	}
	if o.LimitedPod == nil {
		return text
	}
	return o.LimitedPod.Key() + ": " + text
}

// describeLimit sets the keys of the limit.
func (a *Agent) describeLimit(d *Decision, o *Outcome) {
	d.LimitedBy, d.Reason = o.Limit.By.String(), o.LimitReason()
	if o.LimitedPod != nil {
		d.Pod, d.UID = o.LimitedPod.Key(), o.LimitedPod.UID
	}
}

// describePassedLimit sets the keys of the limit that pods before the evicted one in the ranking met.
func (a *Agent) describePassedLimit(d *Decision, o *Outcome) {
	if o.Limit.By == limiter.None || o.EndedByStorageLimit {
		return
	}
	d.LimitedBy = o.Limit.By.String()
	if o.LimitedPod != nil {
		d.Reason += "; limited: " + o.LimitReason() + "; the evicted pod behind it exceeds its request and holds all that is missing"
	}
}

// uncountWithdrawn removes a withdrawn soft eviction from the limiter.
func (a *Agent) uncountWithdrawn(e *inflight.Eviction) {
	pod := e.Decided.Pod
	a.checker.Limiter.Withdrawn(pod.Namespace, pod.Owner, e.DecidedAt)
	a.checker.Limiter.Cancel(pod.UID)
	a.checker.Trace.noteWithdrawn(pod, e.DecidedAt)
}

// evictionsPaused reports whether early checks are useless: memory is short, and evictions for it
// have no effect. A soft eviction has already been counted, and can still be escalated.
func (a *Agent) evictionsPaused(now time.Time) bool {
	if soft := a.inflight[inflight.Soft]; soft != nil && soft.State() == inflight.Terminating {
		return false
	}
	return a.checker.Machine.Conditions().Has(signals.MemoryPressure) && a.checker.Limiter.Ineffective(signals.MemoryPressure, now).By != limiter.None
}

// saveLimiter saves the state of the limiter if it has changed.
func (a *Agent) saveLimiter() {
	if a.limiterSaved != nil && a.checker.Limiter.Changed() {
		a.limiterSaved(a.checker.Limiter.Save())
	}
}
