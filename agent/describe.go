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
	if o.DryRun || !e.Hard {
		return
	}
	k := o.Killed
	d.Processes = k.Processes
	if d.Status = k.Status; d.Status != "" {
		d.StatusTime = millis(k.StatusTime)
	}
	d.KillTime, d.ExitTime, d.ProcessesRemain = millis(k.SignalTime), millis(k.ExitTime), k.ProcessesRemain
	if i := o.Inflight; !i.Limit && o.Snapshot.Node[i.Signal].Known {
		var now signals.Observations
		a.checker.Observer.Observe(&now, o.Snapshot.Kind)
		if now[i.Signal].Known {
			d.FreedBytes = number(now[i.Signal].Available - i.Before)
		}
	}
}

func (a *Agent) escalated(e *inflight.Eviction, s *signals.Snapshot, v *eviction.Verdict) *Decision {
	d := &Decision{Time: s.At, Decision: Escalated, Check: s.Kind.String(), Reason: a.machine.Explain(v, s),
		Pod: e.Of.Pod.Key(), UID: e.Of.Pod.UID, Conditions: v.Conditions.Names()}
	d.observed(v.Target, s)
	return d
}

func (a *Agent) reclaimDone(e *inflight.Eviction, s *signals.Snapshot, why string) *Decision {
	d := &Decision{Time: s.At, Conditions: a.machine.Conditions().Names(), Decision: ReclaimDone, Reason: why, Pod: e.Of.Pod.Key(), UID: e.Of.Pod.UID,
		Signal: e.Signal.String(), ExitTime: millis(s.At.Sub(e.Since))}
	if e.Limit { // no signal to wait for
		d.Signal = e.Of.Cause
		return d
	}
	if o := &s.Node[e.Signal]; o.Known {
		d.Available, d.Capacity = number(o.Available), number(o.Capacity)
		d.FreedBytes = number(o.Available - e.Before)
	}
	return d
}

func (a *Agent) terminatedBy(e *inflight.Eviction, t termination, now time.Time) *Decision {
	d := &Decision{Time: now, Conditions: a.machine.Conditions().Names(), Decision: Terminated, Pod: e.Of.Pod.Key(), UID: e.Of.Pod.UID, Signal: e.Of.Cause,
		Processes: t.killed.Processes, ExitTime: millis(now.Sub(e.Since)), ProcessesRemain: t.killed.ProcessesRemain}
	if t.killed.Withdrawn {
		d.Decision = Withdrawn
	}
	d.Status = t.killed.Status
	if t.err != nil {
		d.Failed = []PodReason{{e.Of.Pod.Key(), t.err.Error()}}
	}
	return d
}
