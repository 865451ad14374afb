package agent

import (
	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// An Outcome is what one look led to.
type Outcome struct {
	Snapshot *signals.Snapshot
	Verdict  eviction.Verdict
	// EndedByLimit: a pod above a local-storage limit was evicted, and the
	// target was not acted for.
	EndedByLimit bool
	Blocked      string // why the target was not acted for, empty if it was
	Collected    []signals.Garbage
	Collecting   bool // room is being made; a later look goes on
	Recovered    bool // found on a second look, before a pod was evicted
	Candidates   []signals.Candidate
	Ranking      []ranking.Ranked
	Evicted      *eviction.Eviction
	Inflight     *inflight.Eviction // what is waited for since, of an agent
	Killed       *Killed            // what was done so far
	DryRun       bool               // it was not: the agent is disarmed
	Failed       []Failure
	// Limit is why the first pod that may be evicted is spared; Spared is that pod, nil
	// if the hold is of more than one. Begun: the hold has begun with this look.
	Limit      limiter.Limit
	SparedPod  *signals.Pod
	LimitBegun bool
	// Passed are the outcomes of other hard targets that nothing could be done for.
	Passed []Outcome
	// Waits: another condition, which a pod was evicted for before, has had no turn.
	OthersWait bool

	asked bool // it has asked for the result of collecting
}

// Acted reports whether anything was done or tried.
func (o *Outcome) Acted() bool {
	return o.Evicted != nil || len(o.Failed) > 0 || len(o.Collected) > 0
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
