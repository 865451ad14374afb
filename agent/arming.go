package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// always is an Arming without a disarmed state.
type always struct{}

func (always) Armed() (armed bool, why string) { return true, "" }

func (always) Check() (armed bool, why string) { return true, "" }

// checkArming updates the arming state at the start of a check. The node itself is read only in
// periodic checks and while a step in flight can still be revoked. Other checks use the state
// last received.
func (a *Agent) checkArming(now time.Time) {
	ask := a.arming.Armed
	if !now.Before(a.nextPeriodic) || a.revocable() {
		ask = a.arming.Check
	}
	a.setArmed(ask())
}

// mayAct checks the arming state right before an irreversible step. A change to armed takes
// effect at the next check, so that one check has one state.
func (a *Agent) mayAct() bool {
	if a.armed {
		if armed, why := a.arming.Check(); !armed {
			a.setArmed(armed, why)
		}
	}
	return a.armed
}

// setArmed switches between armed and disarmed. Timers, conditions and waits for memory that was
// already freed are the same in both states.
func (a *Agent) setArmed(armed bool, why string) {
	if armed == a.armed {
		return
	}
	a.armed = armed
	a.reporter.Report(a.armingChanged(why))
	a.stopGarbage()
	if !armed {
		if e := a.inflight[inflight.Soft]; e != nil && e.State().Soft() {
			a.soft.abandon()
		}
		return
	}
	for i, e := range a.inflight {
		if e != nil && e.State() == inflight.DryRun {
			a.reporter.Report(a.reclaimDone(e, &a.snapshot, "armed"))
			a.inflight[i] = nil
		}
	}
	a.nextPeriodic = a.snapshot.At // all dry-run decisions are made anew, at once
}

// revocable reports whether a step is in flight that a disarmed agent would stop.
func (a *Agent) revocable() bool {
	soft := a.inflight[inflight.Soft]
	return a.garbage.run != nil && !a.garbage.run.done || soft != nil && soft.State().Soft()
}

// addDryRun adds an eviction in dry run.
func (a *Agent) addDryRun(e *inflight.Eviction) PlanResult {
	e.Skip()
	a.inflight.Add(e)
	return PlanResult{Inflight: e, DryRun: true}
}

func (a *Agent) armingChanged(why string) *Decision {
	d := &Decision{Time: a.snapshot.At, Decision: Disarmed, Reason: why, Conditions: a.checker.Machine.Conditions().Names()}
	if a.armed {
		d.Decision = Armed
	}
	return d
}

// stopGarbage stops a collection that began in the other arming state. No pod is chosen by its
// result.
func (a *Agent) stopGarbage() {
	switch r := a.garbage.run; {
	case r == nil:
	case r.done:
		a.garbage.run = nil
	default:
		r.stale = true
		r.cancel()
	}
}

// collectable returns the garbage to collect. It returns nil for a disarmed agent, which still
// has pods measured.
func (a *Agent) collectable(what []signals.Garbage) []signals.Garbage {
	if !a.mayAct() {
		return nil
	}
	return what
}
