package agent

import (
	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/ranking"
)

// Outcome is the result of one check.
type Outcome struct {
	Snapshot *signals.Snapshot
	Verdict  eviction.Verdict
	// EndedByStorageLimit: a pod above a local-storage limit was evicted, and nothing was done for the
	// target.
	EndedByStorageLimit bool
	Blocked             string // why nothing was done for the target; empty otherwise
	Collected           []signals.Garbage
	Collecting          bool // disk space is being freed; a later check continues
	Recovered           bool // on a second observation, before an eviction
	Candidates          []signals.Candidate
	Ranking             []ranking.Ranked
	Evicted             *eviction.Eviction // the decision
	Inflight            *inflight.Eviction // the eviction the agent waits for since, which may have failed
	Result              *EvictionResult    // of Evicted, so far
	DryRun              bool               // nothing was done: the agent is disarmed
	Failed              []Failure
	// Need is what evictions for the target have to free, and Relief what the end of all pods that may
	// be evicted would free. Spared is the number of pods that were passed over because their end
	// would not help. KubeletsPod is the one that the kubelet would evict, or nil if it is the same.
	Need        eviction.Need
	Relief      signals.Amount
	Spared      int
	KubeletsPod *signals.Pod
	// CachePod has page cache that is the shortage, CacheAmount of it in active use; see [ranking.BehindCache]. Nil if there
	// is none.
	CachePod    *signals.Pod
	CacheAmount signals.Amount
	Growth      PodGrowth // of the ranked pods; empty in a scenario
	// Limit is why the eviction of the first eligible pod is limited. LimitedPod is that pod, or
	// nil if the limit covers more than one. LimitBegun: the limit began with this check.
	Limit      limiter.Limit
	LimitedPod *signals.Pod
	LimitBegun bool
	// endedDeleted: the evicted pod was being deleted, and was chosen for what deleted pods hold.
	endedDeleted bool
	// Passed are the outcomes of other hard targets without a possible step.
	Passed []Outcome
	// OthersWait: the condition of an earlier eviction has had no turn.
	OthersWait bool

	garbageAsked bool // the result of garbage collection was requested
}

// Acted reports whether any step was executed or tried.
func (o *Outcome) Acted() bool {
	return o.Evicted != nil || len(o.Failed) > 0 || len(o.Collected) > 0
}

// rankOf returns a pod in the ranking, or nil.
func (o *Outcome) rankOf(pod *signals.Pod) *ranking.Ranked {
	for i := range o.Ranking {
		if o.Ranking[i].Pod == pod {
			return &o.Ranking[i]
		}
	}
	return nil
}

// reliefOf returns the amount that the end of a pod frees.
func (o *Outcome) reliefOf(pod *signals.Pod) signals.Amount {
	if r := o.rankOf(pod); r != nil {
		return r.Relief.Amount
	}
	return 0
}

// evictedFiles reports whether most of the memory that the end of the evicted pod frees is in files,
// which are unmounted after the end of its processes.
func (o *Outcome) evictedFiles() bool {
	r := o.rankOf(o.Evicted.Pod)
	return r != nil && r.Key.Order == ranking.ByMemory && r.Usage != nil && signals.Amount(r.Usage.MemoryFiles.Value) > r.Relief.Amount/2
}

// idle reports whether no pod was ended for the target, and no failure ended the choice. An
// active garbage collection does not delay another threshold.
func (o *Outcome) idle() bool {
	n := len(o.Failed)
	failed := n > 0 && o.Verdict.Target.Hard() && EndsChoice(o.Failed[n-1].Err)
	return o.Evicted == nil && !o.Recovered && !failed
}

// SparedPods returns the pods that were passed over because their end would not help, in the order of
// the ranking.
func (o *Outcome) SparedPods() (pods []*signals.Pod) {
	for i := 0; i < len(o.Ranking) && len(pods) < o.Spared; i++ {
		if r := &o.Ranking[i]; o.mayChoose(r.Pod) && (o.tooLittle() || o.tooSmall(r)) {
			pods = append(pods, r.Pod)
		}
	}
	return pods
}

// mayChoose reports whether a pod may be evicted and has not failed yet.
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

// Failure is a pod that could not be evicted.
type Failure struct {
	Pod *signals.Pod
	Err error
}
