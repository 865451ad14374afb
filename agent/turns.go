package agent

import (
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// group is a part of the hard thresholds, by condition.
type group uint8

// The groups, in the order of their turns.
const (
	otherConditions group = iota // without the condition of the last eviction
	servedCondition              // the condition of the last eviction
	groupCount
)

// nextThreshold moves to the next threshold to act for. With GivesWay, the next hard threshold
// has its turn if nothing can be done for the one before. The first one may be blocked for long,
// which must not delay the others. The condition of the last eviction comes after the others, and
// a soft threshold comes last. Otherwise an owner that replaces each evicted pod at once would
// starve the other thresholds.
func (c *Checker) nextThreshold() {
	o := &c.outcome
	switch {
	case c.evaluated.Target == nil:
		c.endWithoutTarget()
	case !c.GivesWay:
		c.stage, c.nextIndex = atBlocks, 0
	case c.nextHard():
		c.beginTurn(c.current)
	case !c.evaluated.Target.Hard() && !c.softServed:
		c.softServed = true
		c.beginTurn(c.evaluated)
	default: // all of them are hard
		*o, o.Passed = c.passed[0], c.passed[1:]
		c.stage = atEnd
	}
}

// endWithoutTarget ends a check without a threshold to act for.
func (c *Checker) endWithoutTarget() {
	if c.outcome.Snapshot.Kind == signals.Periodic {
		c.lastServed = 0
	}
	c.stage = atEnd
}

// nextHard moves to the next hard threshold. It returns false if there is none.
func (c *Checker) nextHard() bool {
	for ; c.group < groupCount; c.group++ {
		find := c.Machine.NextHard
		if !c.groupBegun {
			find = c.Machine.FirstHard
		}
		for c.groupBegun = true; find(&c.current); find = c.Machine.NextHard {
			if c.servedBefore.Has(c.current.Target.Signal.Definition().Condition) == (c.group == servedCondition) {
				return true
			}
		}
		c.groupBegun = false
	}
	return false
}

// noteServed stores the condition of the target as the last one that was served.
func (c *Checker) noteServed() {
	var served signals.ConditionSet
	if t := c.outcome.Verdict.Target; t != nil {
		served.Add(t.Signal.Definition().Condition)
	}
	if served != c.lastServed {
		c.Trace.noteChange()
	}
	c.lastServed = served
}

// beginTurn begins the turn of a threshold: the verdict's target.
func (c *Checker) beginTurn(v eviction.Verdict) {
	o := &c.outcome
	*o = Outcome{Snapshot: o.Snapshot, Verdict: v, EndedByStorageLimit: o.EndedByStorageLimit}
	c.stage, c.nextIndex, c.limited = atBlocks, 0, false
}

// endTurn ends the turn of a threshold. The check ends too, unless it can act for another one.
func (c *Checker) endTurn() {
	o := &c.outcome
	switch {
	case !c.GivesWay:
	case c.softServed:
		o.Passed = c.passed
	case !o.idle():
		o.Passed, o.OthersWait = c.passed, c.group == otherConditions && c.servedBefore != 0
	default:
		c.passed = append(c.passed, *o)
		c.stage = atThreshold
		return
	}
	c.stage = atEnd
}
