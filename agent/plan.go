package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Action is the kind of a [Plan].
type Action uint8

// The actions, in the order in which a check may request them.
const (
	// Wait ends the check: there is nothing more to do. The [Outcome] has the reasons.
	Wait Action = iota
	// Finish sends SIGKILL to a pod that takes too long after the escalation of its soft
	// eviction.
	Finish
	// Escalate ends the grace period of the soft eviction in flight. Its pod is already chosen,
	// and no other one has to be evicted in its place.
	Escalate
	// CollectGarbage removes dead containers and unused images before a pod is chosen.
	CollectGarbage
	// Evict ends one pod.
	Evict
)

// Plan is the next step of a check. It is a value: its executor passes the [PlanResult] to
// [Checker.Apply], and the check continues from there.
type Plan struct {
	Action   Action
	Inflight *inflight.Eviction // of Finish and Escalate
	Verdict  *eviction.Verdict  // of Escalate and CollectGarbage: the threshold, and the garbage to collect
	Eviction *eviction.Eviction // of Evict
}

// PlanResult is the result of executing a [Plan].
type PlanResult struct {
	// Collected are the kinds that ran, once the collection is Done. Otherwise it runs beside the
	// loop, and a later check continues.
	Collected []signals.Garbage
	Done      bool

	// Inflight is the new eviction, and Eviction its result so far. With Err, it is one that failed
	// after the API server had recorded it. DryRun: the agent is disarmed, and nothing was done.
	Inflight *inflight.Eviction
	Eviction EvictionResult
	DryRun   bool
	// Err is why the pod was not evicted. The next one is tried, unless it wraps
	// [ErrStopChoosing].
	Err error
}

// Constraints are the state of the agent that restricts a check. The zero value restricts nothing:
// no step is in flight.
type Constraints struct {
	Draining      func() string // returns why pods must not be evicted now, empty if they may be; nil: they may
	RetryAt       time.Time     // early checks are blocked until then
	Inflight      *inflight.Set
	Armed         bool
	Garbage       *garbage // nil: the execution of the plan completes the collection
	Kills         tries    // pods killed recently
	AwaitsDeleted bool     // wait for deleted pods
}

// blocker is why nothing is done now for a threshold or for the local-storage limits. At most one
// field is set.
type blocker struct {
	reason   string
	finish   *inflight.Eviction // to finish first
	escalate *inflight.Eviction // to escalate first
}

// triedBefore is why an early check does not try again yet.
const triedBefore = "no pod could be evicted a moment ago"

// blocks returns what prevents action for a threshold, or for local-storage limits if target is
// nil. The node may be shutting down, or memory of an earlier eviction is still being freed.
func (c *Constraints) blocks(s *signals.Snapshot, target *eviction.Threshold) blocker {
	if c.Draining != nil {
		if reason := c.Draining(); reason != "" {
			return blocker{reason: reason}
		}
	}
	if s.Kind == signals.Early && s.At.Before(c.RetryAt) {
		return blocker{reason: triedBefore}
	}
	if c.Inflight == nil {
		return blocker{}
	}
	for _, e := range c.Inflight {
		if e == nil || !e.Holds(target) {
			continue
		}
		if s.Kind == signals.Early && e.Hangs(s.At) {
			if e.FinishDue() {
				return blocker{finish: e}
			}
			if !e.AwaitsFinish(s.At) {
				continue
			}
		}
		if c.Armed && target != nil && target.Hard() && e.State() == inflight.Terminating {
			return blocker{escalate: e}
		}
		return blocker{reason: e.Reason()}
	}
	return blocker{}
}
