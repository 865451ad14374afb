package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// An Action is what a [Plan] asks for.
type Action uint8

// The actions, in the order in which a check may ask for them.
const (
	// Wait ends the check: there is nothing more to do. The [Outcome] has the reasons.
	Wait Action = iota
	// Finish sends SIGKILL to a pod whose soft eviction was escalated and takes too long.
	Finish
	// Escalate ends the grace period of the soft eviction under way: its pod is
	// condemned already, and no other one has to be evicted in its place.
	Escalate
	// CollectGarbage removes dead containers and unused images before a pod is chosen.
	CollectGarbage
	// Evict ends one pod.
	Evict
)

// A Plan is the next step of a check. A value: whoever executes it hands the [Result]
// to [Checker.Apply], and the check goes on from there.
type Plan struct {
	Action   Action
	Inflight *inflight.Eviction // of Finish and Escalate
	Verdict  *eviction.Verdict  // of Escalate and CollectGarbage: for which threshold
	Garbage  []signals.Garbage  // of CollectGarbage, in order
	Eviction *eviction.Eviction // of Evict
}

// A Result is what the execution of a [Plan] led to.
type Result struct {
	// Collected is what ran, once collecting is Done. Otherwise it runs beside the loop,
	// and a later check goes on.
	Collected []signals.Garbage
	Done      bool

	// Inflight is the eviction that has begun, and Killed what was done so far. DryRun:
	// the agent is disarmed, and nothing was done.
	Inflight *inflight.Eviction
	Killed   Killed
	DryRun   bool
	// Err is why the pod was not evicted. The next one is tried, unless it wraps
	// [ErrNobodyElse].
	Err error
}

// Underway is what a check reads of what is going on beside it. The zero value is a
// node where nothing is.
type Underway struct {
	Draining func() string // why pods must not be evicted now, empty if they may be; nil: they may
	RetryAt  time.Time     // no early check tries again before
	Inflight *inflight.Set
	Armed    bool
	Garbage  *garbage // nil: collecting is done when its plan was executed
	Killed   tries    // pods that were killed lately
	Pending  bool     // pods that are being deleted are waited for
}

// A block is why a threshold, or the check of local-storage limits, is not acted for
// now. At most one field is set.
type blocker struct {
	reason   string
	finish   *inflight.Eviction // to be finished first
	escalate *inflight.Eviction // to be escalated first
}

// triedBefore is why an early check does not try again yet.
const triedBefore = "no pod could be evicted a moment ago"

// blocks returns what keeps a threshold from being acted for, nil for local-storage
// limits: the node is being drained, or what an earlier eviction frees is on its way.
func (u *Underway) blocks(s *signals.Snapshot, target *eviction.Threshold) blocker {
	if u.Draining != nil {
		if reason := u.Draining(); reason != "" {
			return blocker{reason: reason}
		}
	}
	if s.Kind == signals.Early && s.At.Before(u.RetryAt) {
		return blocker{reason: triedBefore}
	}
	if u.Inflight == nil {
		return blocker{}
	}
	for _, e := range u.Inflight {
		if e == nil || !e.Holds(target) {
			continue
		}
		if s.Kind == signals.Early && e.Hangs(s.At) {
			if e.ToFinish() {
				return blocker{finish: e}
			}
			if !e.Finishes(s.At) {
				continue
			}
		}
		if u.Armed && target != nil && target.Hard() && e.State() == inflight.Terminating {
			return blocker{escalate: e}
		}
		return blocker{reason: e.Reason()}
	}
	return blocker{}
}
