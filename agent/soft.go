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
	victim    Victim            // finished if the escalation does not help
	results   <-chan softResult // receives one
	escalate  chan struct{}     // closed to end the grace period
	withdraw  chan struct{}     // closed once the eviction is unnecessary
	cancel    context.CancelFunc
	recalled  bool // withdraw is closed
	abandoned bool // the agent was disarmed in the meantime
	replaced  bool // its pod was killed for another reason
}

// softResult is the result of a soft eviction.
type softResult struct {
	result EvictionResult
	err    error
}

// evictSoft evicts a pod softly, beside the loop. A pod from the API server is evicted through
// the API, which a PodDisruptionBudget may refuse for any time. The Victim bounds that wait.
func (a *Agent) evictSoft(ctx context.Context, e *inflight.Eviction, victim Victim) {
	pod := e.Decided.Pod
	grace := time.Duration(min(e.Decided.GracePeriod, maxGrace)) * time.Second
	results := make(chan softResult, 1)
	timeout := grace + inflight.FreeTimeout // a pod that does not end must not block the next one
	if pod.FromAPI {
		timeout = maxGrace * time.Second
	}
	e.Terminate(grace, !pod.FromAPI)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	if unknown := a.soft; unknown != nil {
		a.kills.count(unknown.eviction.Decided.Pod, e.DecidedAt) // it did not end
	}
	r := &softRun{eviction: e, victim: victim, results: results, escalate: make(chan struct{}), withdraw: make(chan struct{}), cancel: cancel}
	a.soft = r
	a.inflight.Add(e)
	go func() {
		defer cancel()
		result, err := victim.Graceful(bounded, grace, Changes{r.escalate, r.withdraw})
		results <- softResult{result, err}
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
	ctx, cancel := context.WithTimeout(context.Background(), eviction.ReactionTime/2)
	defer cancel()
	killed, err := a.soft.victim.Finish(ctx)
	e.NoteFinish(a.snapshot.At, err != nil)
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
	if r.abandoned = true; r.eviction.Decided.Pod.FromAPI {
		r.recall()
		return
	}
	r.cancel()
}

// replaceSoft withdraws a soft eviction after its pod was killed for another reason, so that only
// one of the two counts. The wait for the memory of the pod goes on.
func (a *Agent) replaceSoft(by *inflight.Eviction) {
	r := a.soft
	if r == nil || r.replaced || r.eviction.Decided.Pod.UID != by.Decided.Pod.UID {
		return
	}
	a.uncountWithdrawn(r.eviction) // before the other one is noted
	r.replaced = true
	r.eviction.Replace(by, time.Now())
	if r.recall(); !r.eviction.Decided.Pod.FromAPI {
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
		a.soft.eviction.Decided.Pod.Key(), until.Sub(now).Round(time.Second), ErrStopChoosing)
}

// softResults returns the channel for the result of the soft eviction in flight, or nil.
func (a *Agent) softResults() <-chan softResult {
	if a.soft == nil {
		return nil
	}
	return a.soft.results
}

// applySoftResult applies the result of a soft eviction. If its processes could not be ended, the
// next periodic check decides anew, unless the API server stores the pod as evicted. A withdrawn eviction does not count against the budget,
// whatever the reason. A pod with unanswered evictions is chosen less often.
func (a *Agent) applySoftResult(r softResult) {
	run, e, now := a.soft, a.soft.eviction, time.Now()
	pod := e.Decided.Pod
	if run.replaced {
		a.soft = nil
		a.reporter.Report(a.softEnded(e, softResult{result: EvictionResult{Withdrawn: true}}, now))
		return
	}
	refused := errors.Is(r.err, ErrDisarmed) && !pod.FromAPI
	if refused {
		a.mayAct()
	}
	a.soft = nil
	if refused || run.abandoned && (r.result.ProcessesRemain || errors.Is(r.err, context.Canceled)) {
		r = softResult{result: EvictionResult{Withdrawn: true}}
	}
	a.reporter.Report(a.softEnded(e, r, now))
	if r.result.Withdrawn {
		a.uncountWithdrawn(e)
	} else {
		a.kills.count(pod, now)
	}
	switch {
	case r.result.GivenUp:
		a.refusals.count(pod, now)
	case r.result.Withdrawn && !refused && !run.recalled: // not withdrawn by the agent
		a.unanswered.count(pod, now)
	}
	switch {
	case r.err != nil && r.result.Status == StatusReported: // the kubelet may end the pod
		e.NoteFailedKill(now)
	case r.err != nil, r.result.Withdrawn: // no memory will be freed
		a.inflight.Remove(e)
	default:
		e.NoteSoftResult(now, r.result.ProcessesRemain)
	}
}
