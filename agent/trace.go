package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Recorder receives every check after its execution, for a recording.
type Recorder interface {
	// Record is called after every check, whatever its outcome. The outcome and the trace of the
	// checker are valid until it returns. It must not block, and must not allocate in an early
	// check that considers no pod.
	Record(o *Outcome, c *Checker)
}

// Trace is what a [Checker] has read through its ports since the last check was recorded, and the
// results of its plans, each in their order. With the snapshot and the state before, it determines
// the outcome: see [Checker.Repeat]. The methods of a nil Trace do nothing.
type Trace struct {
	Withdrawn   []Withdrawal          // soft evictions withdrawn before the check
	Blocks      []string              // why a threshold or the storage limits had to wait; empty: nothing blocked them
	ForGrowth   bool                  // the first of Measured is the base of later growth, from before the check
	ForLimits   bool                  // the first of Measured within the check was requested for a storage limit
	Measured    [][]signals.Candidate // the last one is that of the port
	Seen        []signals.Observations
	Collections []PlanResult // Collected and Done
	Attempts    []PlanResult // Err and DryRun
	Deletions   []Deletion
	// Changes: the check has changed what later ones decide by, beyond what its verdict has: the base of
	// growth, the effect of an eviction, or the condition that has its turn last.
	Changes bool

	deletionsNoted bool
}

// Withdrawal is a soft eviction that did not happen.
type Withdrawal struct {
	UID, Namespace, Owner string
	DecidedAt             time.Time
}

// Deletion is a pod under deletion at the start of a check.
type Deletion struct {
	UID    string
	Since  time.Time // when the deletion was first observed; zero: in this check
	Killed bool      // the agent killed the pod before
}

// Considers reports whether the check read more than its snapshot.
func (t *Trace) Considers() bool {
	if len(t.Measured) > 0 || len(t.Collections) > 0 || len(t.Withdrawn) > 0 {
		return true
	}
	for _, reason := range t.Blocks {
		if reason != "" {
			return true
		}
	}
	return false
}

// reset forgets what was recorded. Its memory is used again.
func (t *Trace) reset() {
	if t == nil {
		return
	}
	*t = Trace{Withdrawn: t.Withdrawn[:0], Blocks: t.Blocks[:0], Measured: t.Measured[:0], Seen: t.Seen[:0],
		Collections: t.Collections[:0], Attempts: t.Attempts[:0], Deletions: t.Deletions[:0]}
}

func (t *Trace) noteWithdrawn(pod *signals.Pod, decidedAt time.Time) {
	if t != nil {
		t.Withdrawn, t.Changes = append(t.Withdrawn, Withdrawal{pod.UID, pod.Namespace, pod.Owner, decidedAt}), true
	}
}

func (t *Trace) noteChange() {
	if t != nil {
		t.Changes = true
	}
}

func (t *Trace) noteBlock(reason string) {
	if t != nil {
		t.Blocks = append(t.Blocks, reason)
	}
}

// noteSeen stores an observation right before an act.
func (t *Trace) noteSeen(seen *signals.Observations) {
	if t != nil {
		t.Seen = append(t.Seen, *seen)
	}
}

func (t *Trace) noteCollection(ran []signals.Garbage, done bool) {
	if t != nil {
		t.Collections = append(t.Collections, PlanResult{Collected: ran, Done: done})
	}
}

func (t *Trace) noteAttempt(r *PlanResult) {
	if t != nil {
		t.Attempts = append(t.Attempts, PlanResult{Err: r.Err, DryRun: r.DryRun})
	}
}

// noteDeletions stores the deleted pods of the first ranking of a check. Later ones follow from it.
func (t *Trace) noteDeletions(o *Outcome, d *deletions, killed tries) {
	if t == nil || t.deletionsNoted {
		return
	}
	t.deletionsNoted = true
	for i := range o.Ranking {
		if pod := o.Ranking[i].Pod; !pod.EndsBy.IsZero() {
			t.Deletions = append(t.Deletions, Deletion{pod.UID, d.since[pod.UID], killed[pod.UID].n > 0})
		}
	}
}

// noteBase stores a measurement from before the check.
func (t *Trace) noteBase(candidates []signals.Candidate) {
	if t != nil {
		t.Measured, t.ForGrowth, t.Changes = append(t.Measured, candidates), true, true
	}
}

// measure measures the pods. A measurement is valid until the next one, so that an earlier one of
// the same check is copied before: it is the exception that a check measures twice.
func (c *Checker) measure(ctx context.Context) []signals.Candidate {
	t := c.Trace
	if t == nil {
		return c.Pods.Measure(ctx)
	}
	if n := len(t.Measured); n > 0 {
		t.Measured[n-1] = CloneCandidates(t.Measured[n-1])
	}
	candidates := c.Pods.Measure(ctx)
	t.Measured = append(t.Measured, candidates)
	t.ForLimits = t.ForLimits || c.stage == atThreshold // the stage behind that of the storage limits
	return candidates
}

// CloneCandidates returns a copy that shares nothing with a measurement but the pods. It makes four
// allocations at most.
func CloneCandidates(candidates []signals.Candidate) []signals.Candidate {
	var containers, volumes int
	for i := range candidates {
		if u := candidates[i].Usage; u != nil {
			containers, volumes = containers+len(u.Containers), volumes+len(u.Volumes)
		}
	}
	usages := make([]signals.Usage, len(candidates))
	allContainers, allVolumes := make([]signals.ContainerUsage, 0, containers), make([]signals.VolumeUsage, 0, volumes)
	clones := make([]signals.Candidate, len(candidates))
	for i, c := range candidates {
		if clones[i].Pod = c.Pod; c.Usage == nil {
			continue
		}
		u := &usages[i]
		*u = *c.Usage
		from, first := len(allContainers), len(allVolumes)
		allContainers, allVolumes = append(allContainers, u.Containers...), append(allVolumes, u.Volumes...)
		u.Containers, u.Volumes = allContainers[from:len(allContainers):len(allContainers)], allVolumes[first:len(allVolumes):len(allVolumes)]
		clones[i].Usage = u
	}
	return clones
}

// State is the state of a [Checker] between two checks.
type State struct {
	Decisions eviction.Saved `json:"decisions"`
	Limiter   limiter.Saved  `json:"limiter"`
	Served    []string       `json:"served,omitempty"` // the condition of the last eviction
	// Exact: a checker restored from this state decides exactly as the original. Under pressure the
	// effects of evictions so far are not part of it, nor are earlier measurements of the pods.
	Exact bool `json:"exact"`
}

// State returns the state after the last check, or before the first one, with each time t replaced
// by of(t). It shares nothing with the checker.
func (c *Checker) State(of func(time.Time) time.Time) State {
	s := State{Decisions: c.Machine.Save().At(of), Served: c.lastServed.Names(), Exact: c.outcome.Snapshot == nil || c.Machine.Conditions() == 0 && !c.growth.isUsed()}
	if c.Limiter != nil {
		s.Limiter = c.Limiter.Save().At(of)
	}
	return s
}
