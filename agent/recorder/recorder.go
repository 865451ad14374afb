package recorder

import (
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
)

// keyInterval is the time between two key frames.
const keyInterval = time.Minute

// Queue receives values. [ring.Ring] is one.
type Queue interface {
	Next() *ring.Entry
	Commit(now time.Time, urgent bool)
	Skip()
	MeasurementsWait() bool
}

// Recorder records the checks and decisions of an agent. The goroutine of the loop owns it.
type Recorder struct {
	queue    Queue
	started  time.Time
	sampling sampling
	seq      uint64
	keyed    time.Time // the last key frame
	config   []byte    // from the next recorded check on; nil: as before
}

// New returns a recorder of a run that began at the given time, which must have a monotonic reading.
func New(q Queue, started time.Time) *Recorder { return &Recorder{queue: q, started: started} }

// Monotonic returns a time as in the recording: by the clock that is never set.
func Monotonic(started time.Time) func(time.Time) time.Time {
	return func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return started.Round(0).Add(t.Sub(started))
	}
}

// Reconfigured sets the configuration from the next check on, as in the header of the recording.
func (r *Recorder) Reconfigured(config []byte) { r.config = config }

// Record implements agent.Recorder.
func (r *Recorder) Record(o *agent.Outcome, c *agent.Checker) {
	r.seq++
	s, v := o.Snapshot, &o.Verdict
	considers := o.Acted() || v.Target != nil || c.Trace.Considers()
	record, isNear := r.sampling.choose(o, c.Machine.Policy(), considers)
	if !record {
		return
	}
	brief := r.sampling.isRepeated(o, c.Trace)
	measured := len(c.Trace.Measured) > 0 && !brief
	if measured && r.queue.MeasurementsWait() {
		r.queue.Skip()
		return
	}
	e := r.queue.Next()
	if e == nil {
		return
	}
	policy := c.Machine.Policy()
	e.Near = isNear
	e.Config, r.config = r.config, nil
	e.Check = recording.Check{Snapshot: *s, Seq: r.seq, Layout: policy.Layout, StorageLimits: policy.StorageLimits,
		Met: v.GracePassed, Unknown: v.Unknown, Imminent: v.Imminent, Conditions: v.Conditions, Reason: uint8(v.Reason), Brief: brief}
	if considers && !brief {
		e.Check.Act = actOf(o, c.Trace)
	}
	if s.Kind == signals.Periodic && (r.keyed.IsZero() || s.At.Sub(r.keyed) >= keyInterval-slack) {
		r.keyed = s.At
		e.State = c.State(Monotonic(r.started))
	}
	r.queue.Commit(s.At, measured || o.Acted() || s.Kind == signals.Periodic)
}

// Decision records a decision, which must not be changed afterwards.
func (r *Recorder) Decision(d any, at time.Time) {
	if e := r.queue.Next(); e != nil {
		e.Decision, e.At = d, at
		r.queue.Commit(at, true)
	}
}

// actOf copies what a check considered, since the trace is used again.
func actOf(o *agent.Outcome, t *agent.Trace) *recording.Act {
	a := &recording.Act{Blocks: slices.Clone(t.Blocks), ForGrowth: t.ForGrowth, ForLimits: t.ForLimits, Measured: slices.Clone(t.Measured), Seen: slices.Clone(t.Seen),
		Blocked: o.Blocked, Reclaimed: slices.Clone(o.Collected), Spared: o.Spared, KubeletsPod: o.KubeletsPod}
	if n := len(a.Measured); n > 0 { // the others are copies already
		a.Measured[n-1] = agent.CloneCandidates(a.Measured[n-1])
	}
	for _, w := range t.Withdrawn {
		a.Withdrawn = append(a.Withdrawn, recording.Withdrawal{UID: w.UID, Namespace: w.Namespace, Owner: w.Owner, DecidedAt: w.DecidedAt})
	}
	for _, c := range t.Collections {
		a.Collections = append(a.Collections, recording.Collection{Ran: slices.Clone(c.Collected), Done: c.Done})
	}
	for _, r := range t.Attempts {
		attempt := recording.Attempt{DryRun: r.DryRun}
		if r.Err != nil {
			attempt.Err, attempt.Ends = r.Err.Error(), agent.EndsChoice(r.Err)
		}
		a.Attempts = append(a.Attempts, attempt)
	}
	for _, d := range t.Deletions {
		a.Deletions = append(a.Deletions, recording.Deletion{UID: d.UID, Since: d.Since, Killed: d.Killed})
	}
	if o.Verdict.Target != nil && !o.EndedByStorageLimit {
		a.Acted, a.Signal = true, o.Verdict.Target.Signal
	}
	for i := range o.Ranking {
		a.Ranking = append(a.Ranking, o.Ranking[i].Pod)
	}
	for _, f := range o.Failed {
		a.Failed = append(a.Failed, recording.Failed{Pod: f.Pod, Error: f.Err.Error()})
	}
	if e := o.Evicted; e != nil {
		a.Evicted = &recording.Evicted{Pod: e.Pod, Cause: e.Cause, Hard: e.Hard, GracePeriod: e.GracePeriod, Message: e.Message,
			Annotations: e.Annotations, DisruptionTarget: e.DisruptionTarget, DryRun: o.DryRun}
	}
	if o.Limit.By != limiter.None {
		a.Limit = o.Limit.By.String()
	}
	return a
}
