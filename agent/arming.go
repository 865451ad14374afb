package agent

import (
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// always is the Arming of an agent that nobody can disarm.
type always struct{}

func (always) Armed() (armed bool, why string) { return true, "" }

func (always) Check() (armed bool, why string) { return true, "" }

// checkArming asks at a look whether the agent may act. What has to be looked at for
// that, beyond what others have heard, is looked at regularly and while something
// is under way that can still be taken back.
func (a *Agent) checkArming(now time.Time) {
	ask := a.arming.Armed
	if !now.Before(a.nextRegular) || a.revocable() {
		ask = a.arming.Check
	}
	a.setArmed(ask())
}

// mayAct asks right before something that can not be undone. Being armed is
// taken note of at the next look, so that one look is of one mind.
func (a *Agent) mayAct() bool {
	if a.armed {
		if armed, why := a.arming.Check(); !armed {
			a.setArmed(armed, why)
		}
	}
	return a.armed
}

// setArmed goes on as armed or disarmed. Timers, conditions and waits for what was
// freed already are the same for both.
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
	a.nextRegular = a.snapshot.At // whatever was only told about is decided anew, at once
}

// revocable reports whether something is under way that a disarmed agent would
// not go on with.
func (a *Agent) revocable() bool {
	soft := a.inflight[inflight.Soft]
	return a.garbage.run != nil && !a.garbage.run.done || soft != nil && soft.State().Soft()
}

// skip adds an eviction that nothing was done for.
func (a *Agent) skip(e *inflight.Eviction) Result {
	e.Skip()
	a.inflight.Add(e)
	return Result{Inflight: e, DryRun: true}
}

func (a *Agent) armingChanged(why string) *Decision {
	d := &Decision{Time: a.snapshot.At, Decision: Disarmed, Reason: why, Conditions: a.machine.Conditions().Names()}
	if a.armed {
		d.Decision = Armed
	}
	return d
}

// stopGarbage ends a collection that was begun in another state: what it has measured
// and collected, or not collected, is no ground to choose a pod by.
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

// collectable is what is collected of what there is: nothing in a disarmed agent,
// which has pods measured all the same.
func (a *Agent) collectable(what []signals.Garbage) []signals.Garbage {
	if !a.mayAct() {
		return nil
	}
	return what
}
