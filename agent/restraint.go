package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/restraint"
	"plimsoll.dev/plimsoll/signal"
)

// Holders tells who holds the node's memory.
type Holders interface {
	// Holders returns them, the largest first. What one holds may be a part of what
	// another does.
	Holders() []signal.Holder
}

// clear forgets what evictions have led to for conditions that are over.
func (c *Cycle) clear(v *eviction.Verdict) {
	for condition := range signal.Condition(signal.ConditionCount) {
		if !v.Conditions.Has(condition) {
			c.Restraint.Clear(condition)
		}
	}
}

// held reports whether everybody is spared; without a target it is about
// local-storage limits.
func (c *Cycle) held(o *Outcome, target *eviction.Threshold) bool {
	hold := c.Restraint.Exhausted(o.Snapshot.At)
	if hold.By == restraint.None && target != nil {
		hold = c.Restraint.Futile(target.Signal.Definition().Condition, o.Snapshot.At)
	}
	if hold.By == restraint.None {
		return false
	}
	o.Held, o.Spared = hold, nil
	return true
}

// judge asks, before the next pod is chosen for a condition, whether the last
// eviction for it has helped, and reports whether nobody is chosen for now.
func (c *Cycle) judge(o *Outcome) (held bool) {
	target := o.Verdict.Target
	condition := target.Signal.Definition().Condition
	last := c.Restraint.Awaiting(condition)
	if last == nil {
		return false
	}
	now := &o.Snapshot.Node[last.Signal]
	if len(o.Reclaimed) > 0 {
		now = &c.seen[last.Signal]
	}
	if !now.Known {
		return false // it stays open
	}
	ranked := o.Ranking
	if last.Signal != target.Signal {
		ranked = ranking.Rank(o.Candidates, last.Signal, last.Signal.In(c.Machine.Policy().Layout).Measure)
	}
	seen := sight(now, ranked)
	o.Held = c.Restraint.Judge(condition, o.Snapshot.At, &seen)
	o.Begun = o.Held.By != restraint.None
	return o.Begun
}

// sight is what was seen of a resource.
func sight(of *signal.Observation, ranked []ranking.Ranked) restraint.Sight {
	s := restraint.Sight{Left: of.Available, Total: of.Capacity, Shares: make([]restraint.Share, len(ranked))}
	for i := range ranked {
		s.Shares[i] = restraint.Share{UID: ranked[i].Pod.UID, Used: ranked[i].Key.Usage, Known: !ranked[i].Key.NoStats}
	}
	return s
}

// spares reports whether the first pod that may be chosen is spared for its
// owner's sake, and with it all others: an innocent one would pay. Memory that is
// doomed spares nobody.
func (c *Cycle) spares(o *Outcome, pod *signal.Pod) bool {
	if c.Restraint == nil || !o.mayChoose(pod) {
		return false
	}
	if t := o.Verdict.Target; t.Hard() && t.Signal.OfMemory() && c.Machine.Doomed(o.Snapshot) != 0 {
		return false
	}
	return c.loops(o, pod)
}

// loops reports whether the pod's owner brings it back to be evicted again.
func (c *Cycle) loops(o *Outcome, pod *signal.Pod) bool {
	hold := c.Restraint.Looping(pod.Owner, o.Snapshot.At)
	if hold.By == restraint.None {
		return false
	}
	o.Held, o.Spared = hold, pod
	return true
}

// Spend has the restraint remember the eviction of an outcome that was not only
// rehearsed. It comes once, after the look.
func (c *Cycle) Spend(o *Outcome) {
	e := o.Evicted
	if c.Restraint == nil || e == nil || o.Rehearsed {
		return
	}
	c.Restraint.Evicted(e.Pod.Owner, o.Snapshot.At)
	if o.EndedByLimit {
		return // there is no amount to wait for
	}
	sig := o.Verdict.Target.Signal
	before := &c.seen[sig] // right before the kill
	if !before.Known {
		before = &o.Snapshot.Node[sig]
	}
	kill := restraint.Kill{Signal: sig, UID: e.Pod.UID, Before: sight(before, o.Ranking)}
	for i := range o.Ranking {
		if o.Ranking[i].Pod == e.Pod {
			kill.Expected = o.Ranking[i].Key.Usage
		}
	}
	c.Restraint.Expect(&kill)
}

// WhyHeld says in words who is spared, and why; empty if nobody is.
func (o *Outcome) WhyHeld() string {
	text := o.Held.Explain(o.Snapshot.At)
	if o.Spared == nil {
		return text
	}
	if len(o.Ranking) > 0 { // above a limit everybody is there for their own fault
		text += ", and nobody goes in its stead"
	}
	return o.Spared.Key() + ": " + text
}

// describeHold fills in who is spared and, where evictions have stopped to help,
// who holds the memory.
func (a *Agent) describeHold(d *Decision, o *Outcome) {
	d.Held, d.Why = o.Held.By.String(), o.WhyHeld()
	if o.Spared != nil {
		d.Pod, d.UID = o.Spared.Key(), o.Spared.UID
	}
	if d.Decision != Futile || o.Held.Condition != signal.MemoryPressure || a.holders == nil {
		return
	}
	d.Holders = a.holders.Holders()
}

// withdraw has the restraint forget a soft eviction that did not happen.
func (a *Agent) withdraw(r *release) {
	a.cycle.Restraint.Withdrawn(r.eviction.Pod.Owner, r.since)
	a.cycle.Restraint.Forgo(r.eviction.Pod.UID)
}

// restrained reports whether extra looks would be in vain: memory is short, and
// nobody may be evicted for it. A soft eviction has been counted already, and can
// still be cut short.
func (a *Agent) restrained(now time.Time) bool {
	if soft := a.releases[softPlace]; soft != nil && soft.hurry != nil {
		return false
	}
	r := a.cycle.Restraint
	return a.machine.Conditions().Has(signal.MemoryPressure) &&
		(r.Exhausted(now).By != restraint.None || r.Futile(signal.MemoryPressure, now).By != restraint.None)
}

// saveRestraint hands over what evictions have led to, where that has changed.
func (a *Agent) saveRestraint() {
	if a.restraintSaved != nil && a.cycle.Restraint.Moved() {
		a.restraintSaved(a.cycle.Restraint.Save())
	}
}
