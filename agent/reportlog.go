package agent

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// reportLog stores the last reports, so that checks without news log nothing. There are hundreds
// of them per second while memory is short.
type reportLog struct {
	conditions signals.ConditionSet
	unknown    signals.Set
	recovered  time.Time
	// blocks are the reasons for no action since the last periodic check without a met threshold.
	// The last one of each kind is stored per threshold, since they alternate between checks. The
	// last entry is for reasons without a threshold.
	blocks [][blockKinds]block
	repeat Repeat // of the next line that no pod helps
}

// block is why nothing was done in a check with a met threshold.
type block struct {
	kind      int // 0: none
	threshold eviction.Threshold
	limit     limiter.Limit
	reason    string

	// Of uselessBlock: its begin, and what was logged of it.
	since     time.Time
	causes    uint8
	exhausted exhaustion
	measured  bool // a line has the consumers
}

// The kinds of blocks: one for each [eviction.Reason] of a wait, and the following ones.
const (
	standBlock = iota + int(eviction.Act) + 1
	limitBlock
	failedBlock
	uselessBlock
	blockKinds
)

// lastBlock returns the last block of a kind for a threshold, to be replaced by the next one.
func (a *Agent) lastBlock(of *eviction.Threshold, kind int) *block {
	thresholds := a.checker.Machine.Policy().Thresholds
	if len(a.logged.blocks) == 0 {
		a.logged.blocks = make([][blockKinds]block, len(thresholds)+1)
	}
	about := len(thresholds)
	for i := range thresholds {
		if of != nil && *of == thresholds[i] { // of may belong to an earlier policy
			about = i
		}
	}
	return &a.logged.blocks[about][kind]
}

// forgetBlocks ends what was logged once while thresholds were met. A threshold of an unknown signal
// may still be met: a disk that answers now and then would have its line written each time.
func (a *Agent) forgetBlocks(unknown signals.Set) {
	thresholds := a.checker.Machine.Policy().Thresholds
	for i := range a.logged.blocks {
		if i >= len(thresholds) || !unknown.Has(thresholds[i].Signal) {
			a.logged.blocks[i] = [blockKinds]block{}
		}
	}
}

// adopt continues with the thresholds of another policy: what was logged for one that remains is not
// logged again.
func (l *reportLog) adopt(before, after []eviction.Threshold) {
	if len(l.blocks) == 0 {
		return
	}
	blocks := make([][blockKinds]block, len(after)+1)
	blocks[len(after)] = l.blocks[len(before)]
	for i, t := range after {
		if j := slices.Index(before, t); j >= 0 {
			blocks[i] = l.blocks[j]
		}
	}
	l.blocks = blocks
}

// isNewReason reports whether a block for a threshold, or for none, differs from the last one of its kind,
// and stores it.
func (a *Agent) isNewReason(of *eviction.Threshold, b block) bool {
	b.limit.N = 0 // limits are distinguished by their end
	if of != nil {
		b.threshold = *of
	}
	last := a.lastBlock(of, b.kind)
	before := *last
	*last = b
	return b != before
}

// reportPassed reports what blocks other hard thresholds.
func (a *Agent) reportPassed(o *Outcome) {
	for i := range o.Passed {
		p := &o.Passed[i]
		if verb := a.verb(p); a.isReported(verb, p) {
			a.reportOutcome(p, verb)
		}
	}
}

// isReported reports whether an outcome is logged. A met threshold without action is logged once
// per reason, until a periodic check finds no threshold met and its signal is known.
func (a *Agent) isReported(verb Verb, o *Outcome) bool {
	policy, periodic := a.checker.Machine.Policy(), o.Snapshot.Kind == signals.Periodic
	switch verb {
	case Nothing:
		if periodic {
			a.forgetBlocks(o.Verdict.Unknown)
		}
		return a.settings.LogChecks && periodic
	case Pending:
		return a.isNewReason(o.Verdict.About(policy), block{kind: int(o.Verdict.Reason)})
	case Blocked:
		return !a.isExplained(o.Blocked) && a.isNewReason(o.Verdict.Target, block{kind: standBlock, reason: o.Blocked})
	case NoneHelps: // the amounts differ in each check
		return a.isNewCause(o)
	case Limited, Ineffective:
		return a.isNewReason(o.Verdict.Target, block{kind: limitBlock, limit: o.Limit})
	case Recovered: // repeated by a stream close to the threshold
		if !periodic && a.snapshot.At.Sub(a.logged.recovered) < unknownPace {
			return false
		}
		a.logged.recovered = a.snapshot.At
	case CollectingGarbage:
		r := a.garbage.run
		if r == nil { // dropped in the same check, on disarming or for an eviction
			return false
		}
		reported := r.reported
		r.reported = true
		return !reported && *a.lastBlock(o.Verdict.Target, uselessBlock) == block{} // no pod helps, and garbage is looked for again
	case Failed:
		if len(o.Failed) == 0 {
			return a.isNewReason(o.Verdict.Target, block{kind: failedBlock})
		}
		return periodic || a.snapshot.At.After(a.retryAt.Add(a.settings.Period))
	case Evicted, SoftEvicting, WouldEvict: // later blocks are reported anew
		for s := range a.logged.blocks {
			a.logged.blocks[s][standBlock], a.logged.blocks[s][failedBlock], a.logged.blocks[s][uselessBlock] = block{}, block{}, block{}
		}
	}
	return true
}

// isExplained reports whether an earlier line has the reason of the block: that of the eviction
// in flight, or that of the previous check.
func (a *Agent) isExplained(reason string) bool {
	if reason == triedBefore {
		return true
	}
	for _, e := range a.inflight {
		if e != nil && e.Reason() == reason {
			return true
		}
	}
	return false
}
