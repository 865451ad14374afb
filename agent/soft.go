package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/agent/inflight"
	"plimsoll.dev/plimsoll/eviction"
)

// maxGrace is the maximum grace period of a soft eviction in seconds: one year.
const maxGrace = 365 * 24 * 3600

// softRun is a soft eviction that runs beside the loop.
type softRun struct {
	eviction  *inflight.Eviction
	victim    Victim // finished if the escalation does not help
	finished  <-chan termination
	escalate  chan struct{} // closed to end the grace period
	withdraw  chan struct{} // closed once the eviction is unnecessary
	cancel    context.CancelFunc
	recalled  bool // withdraw is closed
	abandoned bool // the agent was disarmed in the meantime
	replaced  bool // its pod was killed for another reason
}

// termination is the result of a soft eviction.
type termination struct {
	killed Killed
	err    error
}

// terminate evicts a pod softly, beside the loop. A pod from the API server is evicted through
// the API, which a PodDisruptionBudget may refuse for any time. The Victim bounds that wait.
func (a *Agent) terminate(ctx context.Context, e *inflight.Eviction, victim Victim) {
	pod := e.Of.Pod
	grace := time.Duration(min(e.Of.GracePeriod, maxGrace)) * time.Second
	finished := make(chan termination, 1)
	limit := grace + inflight.FreeTimeout // a pod that does not end must not block the next one
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

// escalate ends the grace period of the soft eviction in flight.
func (a *Agent) escalate(e *inflight.Eviction, v *eviction.Verdict) {
	if !e.Escalate(a.snapshot.At) {
		return
	}
	close(a.soft.escalate)
	a.reporter.Report(a.escalated(e, &a.snapshot, v))
}

// finish kills a pod that remains after an escalation, on the loop's own thread. The pod may no
// longer be listed, because the API server stores it as failed already. No other pod is chosen in
// its place.
func (a *Agent) finish(e *inflight.Eviction) {
	// Checks get the other half of the wait: at its end the fall of memory must be known.
	ctx, cancel := context.WithTimeout(context.Background(), eviction.KillTime/2)
	defer cancel()
	killed, err := a.soft.victim.Finish(ctx)
	e.Finished(a.snapshot.At, err != nil)
	if killed.Processes > 0 {
		a.rates = rateEstimator{}
	}
}

// recall withdraws an unneeded soft eviction.
func (r *softRun) recall() {
	if !r.recalled {
		r.recalled = true
		close(r.withdraw)
	}
}

// abandon withdraws a soft eviction as far as possible. A pod deleted in the API server ends
// nevertheless. A static pod that was sent SIGTERM gets no SIGKILL.
func (r *softRun) abandon() {
	if r.abandoned = true; r.eviction.Of.Pod.FromAPI {
		r.recall()
		return
	}
	r.cancel()
}

// replaceSoft withdraws a soft eviction after its pod was killed for another reason, so that only
// one of the two counts. The wait for the memory of the pod goes on.
func (a *Agent) replaceSoft(by *inflight.Eviction) {
	r := a.soft
	if r == nil || r.replaced || r.eviction.Of.Pod.UID != by.Of.Pod.UID {
		return
	}
	a.withdraw(r.eviction) // before the other one is noted
	r.replaced = true
	r.eviction.Replace(by, time.Now())
	if r.recall(); !r.eviction.Of.Pod.FromAPI {
		r.cancel()
	}
}

// stillEnding returns an error while the pod of an earlier soft eviction is still terminating. No
// other soft eviction begins in that time, up to FreeTimeout after its deadline.
func (a *Agent) stillEnding(now time.Time) error {
	if a.soft == nil {
		return nil
	}
	until := a.soft.eviction.Deadline().Add(inflight.FreeTimeout)
	if !now.Before(until) {
		return nil
	}
	return fmt.Errorf("end pod %s after its escalated soft eviction: it has not exited; waiting for another %s: %w",
		a.soft.eviction.Of.Pod.Key(), until.Sub(now).Round(time.Second), ErrStopChoosing)
}

// terminated returns the channel for the result of the soft eviction in flight, or nil.
func (a *Agent) terminated() <-chan termination {
	if a.soft == nil {
		return nil
	}
	return a.soft.finished
}

// endTermination applies the result of a soft eviction. If its processes could not be ended, the
// next periodic check decides anew. A withdrawn eviction does not count against the budget,
// whatever the reason. A pod with unanswered evictions is asked less often.
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
	case t.killed.Withdrawn && !refused && !r.recalled: // not withdrawn by the agent
		a.unanswered.count(pod, now)
	}
	if t.err != nil || t.killed.Withdrawn {
		a.inflight.Remove(e)
	}
}
