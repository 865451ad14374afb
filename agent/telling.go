package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// telling is what was told last, so that looks that led to nothing new are
// silent: they come hundreds of times a second while memory is short.
type telling struct {
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
	hold      limiter.Hold
	reason    string
}

// The kinds of blocks: waits, one for each [eviction.Reason], and what comes after.
const (
	standBlock = iota + int(eviction.Act) + 1
	holdBlock
	failedBlock
	blockKinds
)

// isNewBlock reports whether a block is another one than the last of its kind, and
// notes it.
func (a *Agent) isNewBlock(b block) bool {
	thresholds := a.machine.Policy().Thresholds
	if len(a.told.blocks) != len(thresholds)+1 { // another policy
		a.told.blocks = make([][blockKinds]block, len(thresholds)+1)
	}
	about := len(thresholds)
	for i := range thresholds {
		if b.threshold == &thresholds[i] {
			about = i
		}
	}
	b.hold.N = 0 // when it is over tells one hold from another
	last := &a.told.blocks[about][b.kind]
	before := *last
	*last = b
	return b != before
}

// tellPassed tells what keeps other hard thresholds from being acted for.
func (a *Agent) tellPassed(o *Outcome) {
	for i := range o.Passed {
		p := &o.Passed[i]
		if verb := a.verb(p); a.isNews(verb, p, p.Snapshot.Kind == signals.Regular) {
			a.reporter.Report(a.decision(p, verb))
		}
	}
}

// isNews reports whether an outcome is told. That a threshold is met but not
// acted for is told once for each reason, until a regular look finds nothing met.
func (a *Agent) isNews(verb Verb, o *Outcome, regular bool) bool {
	policy := a.machine.Policy()
	switch verb {
	case Nothing:
		if regular {
			clear(a.told.blocks)
		}
		return a.settings.TellLooks && regular
	case Waits:
		return a.isNewBlock(block{kind: int(o.Verdict.Reason), threshold: o.Verdict.About(policy)})
	case StoodBy:
		return !a.explained(o.StoodBy) && a.isNewBlock(block{kind: standBlock, threshold: o.Verdict.Target, reason: o.StoodBy})
	case Held, Futile:
		return a.isNewBlock(block{kind: holdBlock, threshold: o.Verdict.Target, hold: o.Held})
	case Recovered: // a stream at the line does so again and again
		if !regular && a.snapshot.At.Sub(a.told.recovered) < unknownPace {
			return false
		}
		a.told.recovered = a.snapshot.At
	case Reclaims:
		r := a.garbage.run
		if r == nil { // dropped in the same look, on disarming or for an eviction
			return false
		}
		told := r.told
		r.told = true
		return !told
	case Failed:
		if len(o.Failed) == 0 {
			return a.isNewBlock(block{kind: failedBlock, threshold: o.Verdict.Target})
		}
		return regular || a.snapshot.At.After(a.retryAt.Add(a.settings.Period))
	case Evicted, Terminating, WouldEvict: // what blocks after this is told anew
		for s := range a.told.blocks {
			a.told.blocks[s][standBlock], a.told.blocks[s][failedBlock] = block{}, block{}
		}
	}
	return true
}

// explained reports whether an earlier line says why the agent stands by: the one of
// the eviction that is under way, or the one of the look before.
func (a *Agent) explained(reason string) bool {
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
