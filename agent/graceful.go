package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// longestGrace bounds the grace period of a soft eviction, in seconds: a year.
const longestGrace = 365 * 24 * 3600

// terminate lets the pod end within its grace period, beside the loop. A pod of
// the API server is asked for politely, which may be refused for as long as a
// budget says so; how long to wait is the victim's to know.
func (a *Agent) terminate(ctx context.Context, r *release, victim Victim) {
	grace := time.Duration(min(r.eviction.GracePeriod, longestGrace)) * time.Second
	finished, hurry, withdraw := make(chan termination, 1), make(chan struct{}), make(chan struct{})
	r.finished, r.hurry, r.withdraw, r.victim = finished, hurry, withdraw, victim
	r.deadline = r.deadline.Add(grace)
	limit := grace + releaseWait // what can not be ended must not keep the next one from being tried
	if r.eviction.Pod.FromAPI {
		r.deadline, limit = time.Time{}, longestGrace*time.Second
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	r.cancel = cancel
	if unheard := a.graceful; unheard != nil {
		a.kills.count(unheard.eviction.Pod, r.since) // it did not end
	}
	a.graceful = r
	a.keep(r)
	go func() {
		defer cancel()
		killed, err := victim.Graceful(bounded, grace, Changes{hurry, withdraw})
		finished <- termination{killed, err}
		a.notifier.Wake()
	}()
}

// finish ends a pod that was hurried and is still there, on the loop's own thread,
// and reports whether to go on waiting for what it holds: until memory is found to
// fall as before. It may be listed no more, because the API server knows it as
// failed already: who would be chosen in its place has done nothing.
func (a *Agent) finish(r *release, s *signals.Snapshot) (wait bool) {
	if !r.finishing.IsZero() {
		return s.At.Sub(r.finishing) < eviction.KillTime
	}
	r.finishing = s.At
	// The other half of the wait is for looks: whether memory falls on has to be known by its end.
	ctx, cancel := context.WithTimeout(context.Background(), eviction.KillTime/2)
	defer cancel()
	killed, err := r.victim.Finish(ctx)
	if killed.Processes > 0 {
		a.falls = falls{}
	}
	return err == nil
}

// supersede takes a soft eviction back whose pod was now killed for something else:
// one of the two counts. What the pod holds is waited for all the same.
func (a *Agent) supersede(by *release) {
	r := a.graceful
	if r == nil || r.superseded || r.eviction.Pod.UID != by.eviction.Pod.UID {
		return
	}
	a.withdraw(r) // before the other is noted
	r.superseded, r.lingering, r.rest, r.hurry = true, by.lingering, by.rest, nil
	r.gone, r.deadline = by.gone, time.Now().Add(releaseWait)
	if r.recall(); !r.eviction.Pod.FromAPI {
		r.cancel()
	}
}

// stillEnding says why no other pod is asked to end yet: one that is not waited for
// any more is still at it. After a while its end is not heard of any more, either.
func (a *Agent) stillEnding(now time.Time) error {
	r := a.graceful
	if r == nil || now.Sub(r.deadline) >= releaseWait {
		return nil
	}
	return fmt.Errorf("pod %s, whose soft eviction was cut short, has not ended yet, which is waited for for another %s: %w",
		r.eviction.Pod.Key(), r.deadline.Add(releaseWait).Sub(now).Round(time.Second), ErrNobodyElse)
}

// terminated is where the soft eviction under way reports its end; nil if
// there is none.
func (a *Agent) terminated() <-chan termination {
	if a.graceful == nil {
		return nil
	}
	return a.graceful.finished
}

// endTermination notes that the processes of a soft eviction are gone. If they
// could not be ended, the next regular look decides anew. What was withdrawn costs
// nothing, whatever the reason; a pod that was asked for in vain is asked for less.
func (a *Agent) endTermination(t termination) {
	r := a.graceful
	a.graceful = nil
	if r.superseded {
		r.finished = nil
		a.reporter.Report(a.terminatedBy(r, termination{killed: Killed{Withdrawn: true}}, time.Now()))
		return
	}
	refused := errors.Is(t.err, ErrDisarmed) && !r.eviction.Pod.FromAPI
	if refused {
		a.mayAct()
	}
	if refused || r.abandoned && (t.killed.Lingering || errors.Is(t.err, context.Canceled)) {
		t = termination{killed: Killed{Withdrawn: true}}
	}
	inVain := t.killed.Withdrawn && !refused && r.withdraw != nil // nobody here has recalled it
	r.finished, r.hurry, r.withdraw = nil, nil, nil               // the deadline goes on
	if r.deadline.IsZero() {
		r.deadline = time.Now().Add(releaseWait)
	}
	r.lingering, r.gone = t.killed.Lingering, time.Now()
	a.reporter.Report(a.terminatedBy(r, t, time.Now()))
	if t.killed.Withdrawn {
		a.withdraw(r)
	} else {
		a.kills.count(r.eviction.Pod, time.Now())
	}
	switch {
	case t.killed.GivenUp:
		a.refusals.count(r.eviction.Pod, time.Now())
	case inVain:
		a.vain.count(r.eviction.Pod, time.Now())
	}
	if place := &a.releases[softPlace]; *place == r && (t.err != nil || t.killed.Withdrawn) {
		*place = nil
	}
}
