package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// describe fills in the eviction and what it has freed so far.
func (a *Agent) describe(d *Decision, o *Outcome) {
	e := o.Evicted
	d.Pod, d.UID, d.Message = e.Pod.Key(), e.Pod.UID, e.Message
	if !e.Hard {
		d.Grace = &e.GracePeriod
	}
	if o.Rehearsed || !e.Hard {
		return
	}
	d.Processes = a.killed.Processes
	if d.Status = a.killed.Status; d.Status != "" {
		d.ToStatus = millis(a.killed.ToStatus)
	}
	d.ToSignal, d.ToEmpty, d.Lingering = millis(a.killed.ToSignal), millis(a.killed.ToEmpty), a.killed.Lingering
	if r := a.newest; !r.limit && a.snapshot.Node[r.signal].Known {
		var now signals.Observations
		a.cycle.Observer.Observe(&now, o.Snapshot.Kind)
		if now[r.signal].Known {
			d.Freed = number(now[r.signal].Available - r.before)
		}
	}
}

func (a *Agent) hurried(r *release, s *signals.Snapshot, v *eviction.Verdict) *Decision {
	d := &Decision{Time: s.At, Decision: Hurried, Look: s.Kind.String(), Why: a.machine.Explain(v, s),
		Pod: r.eviction.Pod.Key(), UID: r.eviction.Pod.UID, Conditions: v.Conditions.Names()}
	d.observed(v.Target, s)
	return d
}

func (a *Agent) settled(r *release, s *signals.Snapshot, why string) *Decision {
	d := &Decision{Time: s.At, Conditions: a.machine.Conditions().Names(), Decision: Settled, Why: why, Pod: r.eviction.Pod.Key(), UID: r.eviction.Pod.UID,
		Signal: r.signal.String(), ToEmpty: millis(s.At.Sub(r.since))}
	if r.limit { // there is no signal to wait for
		d.Signal = r.eviction.Cause
		return d
	}
	if o := &s.Node[r.signal]; o.Known {
		d.Available, d.Capacity = number(o.Available), number(o.Capacity)
		d.Freed = number(o.Available - r.before)
	}
	return d
}

func (a *Agent) terminatedBy(r *release, t termination, now time.Time) *Decision {
	d := &Decision{Time: now, Conditions: a.machine.Conditions().Names(), Decision: Terminated, Pod: r.eviction.Pod.Key(), UID: r.eviction.Pod.UID, Signal: r.eviction.Cause,
		Processes: t.killed.Processes, ToEmpty: millis(now.Sub(r.since)), Lingering: t.killed.Lingering}
	if t.killed.Withdrawn {
		d.Decision = Withdrawn
	}
	d.Status = t.killed.Status
	if t.err != nil {
		d.Failed = []Place{{r.eviction.Pod.Key(), t.err.Error()}}
	}
	return d
}
