package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// describe sets the keys of the eviction and of the memory freed so far.
func (a *Agent) describe(d *Decision, o *Outcome) {
	e := o.Evicted
	d.Pod, d.UID, d.Message = e.Pod.Key(), e.Pod.UID, e.Message
	if !e.Hard {
		d.Grace = &e.GracePeriod
	}
	if d.Choice = o.choice(); o.DryRun || !e.Hard {
		return
	}
	r := o.Result
	d.Processes = r.Processes
	if d.Status = r.Status; d.Status != StatusNone {
		d.StatusTime = millis(r.StatusTime)
	}
	if d.KillTime, d.ProcessesRemain = millis(r.SignalTime), r.ProcessesRemain; !r.ProcessesRemain {
		d.ExitTime = millis(r.ExitTime)
	}
	if i := o.Inflight; !i.AboveStorageLimit && o.Snapshot.Node[i.Signal].Known {
		var now signals.Observations
		a.checker.Observer.Observe(&now, o.Snapshot.Kind)
		if now[i.Signal].Known {
			d.FreedBytes = number(now[i.Signal].Available - i.AvailableBefore)
		}
	}
}

// escalated returns the decision for the escalation of a soft eviction.
func (a *Agent) escalated(e *inflight.Eviction, s *signals.Snapshot, v *eviction.Verdict) *Decision {
	d := &Decision{Time: s.At, Decision: Escalated, Check: s.Kind.String(), Reason: a.checker.Machine.Explain(v, s),
		Pod: e.Decided.Pod.Key(), UID: e.Decided.Pod.UID, Conditions: v.Conditions.Names()}
	setObserved(d, v.Target, s)
	return d
}

// reclaimDone returns the decision for the end of the wait for freed memory.
func (a *Agent) reclaimDone(e *inflight.Eviction, s *signals.Snapshot, why string) *Decision {
	d := &Decision{Time: s.At, Conditions: a.checker.Machine.Conditions().Names(), Decision: ReclaimDone, Reason: why, Pod: e.Decided.Pod.Key(), UID: e.Decided.Pod.UID,
		Signal: e.Signal.String(), ExitTime: millis(s.At.Sub(e.DecidedAt)), DryRun: e.State() == inflight.DryRun}
	if e.AboveStorageLimit { // no signal to wait for
		d.Signal = e.Decided.Cause
		return d
	}
	if o := &s.Node[e.Signal]; o.Known {
		d.Available, d.Capacity = number(o.Available), number(o.Capacity)
		if !d.DryRun { // else whatever freed memory was no eviction
			d.FreedBytes = number(o.Available - e.AvailableBefore)
		}
	}
	return d
}

// softEnded returns the decision for the result of a soft eviction.
func (a *Agent) softEnded(e *inflight.Eviction, r softResult, now time.Time) *Decision {
	d := &Decision{Time: now, Conditions: a.checker.Machine.Conditions().Names(), Decision: SoftEnded, Pod: e.Decided.Pod.Key(), UID: e.Decided.Pod.UID, Signal: e.Decided.Cause,
		Processes: r.result.Processes, ExitTime: millis(now.Sub(e.DecidedAt)), ProcessesRemain: r.result.ProcessesRemain}
	if r.result.Withdrawn {
		d.Decision = Withdrawn
	}
	d.Status = r.result.Status
	if r.err != nil {
		d.Failed = []PodReason{{Pod: e.Decided.Pod.Key(), Reason: r.err.Error()}}
	}
	return d
}
