package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// reportLog is what was told last, so that looks that led to nothing new are
// silent: they come hundreds of times a second while memory is short.
type reportLog struct {
	conditions signals.ConditionSet
	unknown    signals.Set
	recovered  time.Time
	// blocks are why nothing was done, told since a regular look found nothing met:
	// the last one of each kind for each threshold, since they alternate between looks.
	// What is about no threshold comes last.
	blocks [][blockKinds]block
}

// A block is why a look that found a threshold met has done nothing.
type block struct {
	kind      int // 0 is none
	threshold *eviction.Threshold
	hold      limiter.Limit
	reason    string
}

// The kinds of blocks: waits, one for each [eviction.Reason], and what comes after.
const (
	standBlock = iota + int(eviction.Act) + 1
	holdBlock
	failedBlock
	blockKinds
)

// isNewReason reports whether a block is another one than the last of its kind, and
// notes it.
func (a *Agent) isNewReason(b block) bool {
	thresholds := a.machine.Policy().Thresholds
	if len(a.logged.blocks) != len(thresholds)+1 { // another policy
		a.logged.blocks = make([][blockKinds]block, len(thresholds)+1)
	}
	about := len(thresholds)
	for i := range thresholds {
		if b.threshold == &thresholds[i] {
			about = i
		}
	}
	b.hold.N = 0 // when it is over tells one hold from another
	last := &a.logged.blocks[about][b.kind]
	before := *last
	*last = b
	return b != before
}

// reportPassed tells what keeps other hard thresholds from being acted for.
func (a *Agent) reportPassed(o *Outcome) {
	for i := range o.Passed {
		p := &o.Passed[i]
		if verb := a.verb(p); a.isReported(verb, p, p.Snapshot.Kind == signals.Periodic) {
			a.reporter.Report(a.decision(p, verb))
		}
	}
}

// isReported reports whether an outcome is told. That a threshold is met but not
// acted for is told once for each reason, until a regular look finds nothing met.
func (a *Agent) isReported(verb Verb, o *Outcome, regular bool) bool {
	policy := a.machine.Policy()
	switch verb {
	case Nothing:
		if regular {
			clear(a.logged.blocks)
		}
		return a.settings.LogChecks && regular
	case Pending:
		return a.isNewReason(block{kind: int(o.Verdict.Reason), threshold: o.Verdict.About(policy)})
	case Blocked:
		return !a.isExplained(o.Blocked) && a.isNewReason(block{kind: standBlock, threshold: o.Verdict.Target, reason: o.Blocked})
	case Limited, Ineffective:
		return a.isNewReason(block{kind: holdBlock, threshold: o.Verdict.Target, hold: o.Limit})
	case Recovered: // a stream at the line does so again and again
		if !regular && a.snapshot.At.Sub(a.logged.recovered) < unknownPace {
			return false
		}
		a.logged.recovered = a.snapshot.At
	case CollectingGarbage:
		r := a.garbage.run
		if r == nil { // dropped in the same look, on disarming or for an eviction
			return false
		}
		told := r.told
		r.told = true
		return !told
	case Failed:
		if len(o.Failed) == 0 {
			return a.isNewReason(block{kind: failedBlock, threshold: o.Verdict.Target})
		}
		return regular || a.snapshot.At.After(a.retryAt.Add(a.settings.Period))
	case Evicted, SoftEvicting, WouldEvict: // what blocks after this is told anew
		for s := range a.logged.blocks {
			a.logged.blocks[s][standBlock], a.logged.blocks[s][failedBlock] = block{}, block{}
		}
	}
	return true
}

// isExplained reports whether an earlier line says why the agent stands by: the one of
// the eviction that is under way, or the one of the look before.
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
