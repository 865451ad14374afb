package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
)

// maxGrace bounds the grace period of a soft eviction, in seconds: a year.
const maxGrace = 365 * 24 * 3600

// A softRun is a soft eviction that runs beside the loop.
type softRun struct {
	eviction  *inflight.Eviction
	victim    Victim // to be finished if being hurried does not help
	finished  <-chan termination
	escalate  chan struct{} // closed to end the grace period
	withdraw  chan struct{} // closed once the eviction is unnecessary
	cancel    context.CancelFunc
	recalled  bool // withdraw is closed
	abandoned bool // the agent was disarmed meanwhile
	replaced  bool // its pod was killed for something else
}

// termination is how a soft eviction ended.
type termination struct {
	killed Killed
	err    error
}

// terminate lets the pod end within its grace period, beside the loop. A pod of
// the API server is asked for politely, which may be refused for as long as a
// budget says so; how long to wait is the victim's to know.
func (a *Agent) terminate(ctx context.Context, e *inflight.Eviction, victim Victim) {
	pod := e.Of.Pod
	grace := time.Duration(min(e.Of.GracePeriod, maxGrace)) * time.Second
	finished := make(chan termination, 1)
	limit := grace + inflight.FreeTimeout // what can not be ended must not keep the next one from being tried
	if pod.FromAPI {
		limit = maxGrace * time.Second
	}
	e.Terminate(grace, !pod.FromAPI)
	bounded, cancel := context.WithTimeout(ctx, limit)
	if unknown := a.soft; unknown != nil {
		a.kills.count(unknown.eviction.Of.Pod, e.Since) // it did not end
	}
	r := &softRun{eviction: e, victim: victim, finished: finished, escalate: make(chan struct{}), withdraw: make(chan struct{}), cancel: cancel}
	a.soft = r
	a.inflight.Add(e)
	go func() {
		defer cancel()
		killed, err := victim.Graceful(bounded, grace, Changes{r.escalate, r.withdraw})
		finished <- termination{killed, err}
		a.notifier.Wake()
	}()
}

// escalate ends the grace period of the soft eviction under way.
func (a *Agent) escalate(e *inflight.Eviction, v *eviction.Verdict) {
	if !e.Escalate(a.snapshot.At) {
		return
	}
	close(a.soft.escalate)
	a.reporter.Report(a.escalated(e, &a.snapshot, v))
}

// finish ends a pod that was escalated and is still there, on the loop's own thread. It
// may be listed no more, because the API server knows it as failed already: who would be
// chosen in its place has done nothing.
func (a *Agent) finish(e *inflight.Eviction) {
	// The other half of the wait is for looks: whether memory falls on has to be known by its end.
	ctx, cancel := context.WithTimeout(context.Background(), eviction.KillTime/2)
	defer cancel()
	killed, err := a.soft.victim.Finish(ctx)
	e.Finished(a.snapshot.At, err != nil)
	if killed.Processes > 0 {
		a.rates = rateEstimator{}
	}
}

// recall withdraws a soft eviction that is not needed any more.
func (r *softRun) recall() {
	if !r.recalled {
		r.recalled = true
		close(r.withdraw)
	}
}

// abandon takes a soft eviction back as far as it can be. A pod that the API
// server has deleted ends nevertheless; one of a manifest, which was sent SIGTERM,
// gets no SIGKILL.
func (r *softRun) abandon() {
	if r.abandoned = true; r.eviction.Of.Pod.FromAPI {
		r.recall()
		return
	}
	r.cancel()
}

// replaceSoft takes a soft eviction back whose pod was now killed for something else:
// one of the two counts. What the pod holds is waited for all the same.
func (a *Agent) replaceSoft(by *inflight.Eviction) {
	r := a.soft
	if r == nil || r.replaced || r.eviction.Of.Pod.UID != by.Of.Pod.UID {
		return
	}
	a.withdraw(r.eviction) // before the other is noted
	r.replaced = true
	r.eviction.Replace(by, time.Now())
	if r.recall(); !r.eviction.Of.Pod.FromAPI {
		r.cancel()
	}
}

// stillEnding says why no other pod is asked to end yet: one that is not waited for
// any more is still at it. After a while its end is not heard of any more, either.
func (a *Agent) stillEnding(now time.Time) error {
	if a.soft == nil {
		return nil
	}
	until := a.soft.eviction.Deadline().Add(inflight.FreeTimeout)
	if !now.Before(until) {
		return nil
	}
	return fmt.Errorf("pod %s, whose soft eviction was cut short, has not ended yet, which is waited for for another %s: %w",
		a.soft.eviction.Of.Pod.Key(), until.Sub(now).Round(time.Second), ErrStopChoosing)
}

// terminated is where the soft eviction under way reports its end; nil if
// there is none.
func (a *Agent) terminated() <-chan termination {
	if a.soft == nil {
		return nil
	}
	return a.soft.finished
}

// endTermination notes that the processes of a soft eviction are gone. If they
// could not be ended, the next regular look decides anew. What was withdrawn costs
// nothing, whatever the reason; a pod that was asked for in vain is asked for less.
func (a *Agent) endTermination(t termination) {
	r, e, now := a.soft, a.soft.eviction, time.Now()
	pod := e.Of.Pod
	if r.replaced {
		a.soft = nil
		a.reporter.Report(a.terminatedBy(e, termination{killed: Killed{Withdrawn: true}}, now))
		return
	}
	refused := errors.Is(t.err, ErrDisarmed) && !pod.FromAPI
	if refused {
		a.mayAct()
	}
	a.soft = nil
	if refused || r.abandoned && (t.killed.ProcessesRemain || errors.Is(t.err, context.Canceled)) {
		t = termination{killed: Killed{Withdrawn: true}}
	}
	e.EndSoft(now, t.killed.ProcessesRemain)
	a.reporter.Report(a.terminatedBy(e, t, now))
	if t.killed.Withdrawn {
		a.withdraw(e)
	} else {
		a.kills.count(pod, now)
	}
	switch {
	case t.killed.GivenUp:
		a.refusals.count(pod, now)
	case t.killed.Withdrawn && !refused && !r.recalled: // the agent has not withdrawn it
		a.unanswered.count(pod, now)
	}
	if t.err != nil || t.killed.Withdrawn {
		a.inflight.Remove(e)
	}
}
