package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

const (
	// escalatedPatience bounds the wait for the API server when a hard threshold was crossed during
	// a soft eviction. It is short because the server has been reached before.
	escalatedPatience = 200 * time.Millisecond
	// cleanupTime is the time after the grace period within which a pod must be gone, as the
	// kubelet allows for its cleanup.
	cleanupTime = 30 * time.Second
	// unansweredTime is the time, in addition to the pod's grace period, for which a request may be
	// refused by a budget or not be acted on. Then the request is given up: other pods wait for it.
	unansweredTime = 5 * time.Minute
	// requestTime bounds one request.
	requestTime = 10 * time.Second
	// retryTime is the pause after a failed request.
	retryTime = 5 * time.Second
	// finalAnswerTime bounds the wait for the API server's record of why a requested pod has ended:
	// a watch lags behind the server.
	finalAnswerTime = 2 * time.Second
)

// Changes are the changes that reach a graceful end in progress.
type Changes struct {
	Escalate <-chan struct{} // closed when the pod must end immediately
	Withdraw <-chan struct{} // closed when no eviction is needed any more
}

// Graceful ends the pod within its grace period. Returns an error if its processes could not be
// ended, if the pod outlives its time, or if the request is refused or not acted on for too long.
func (v *Evictor) Graceful(ctx context.Context, e *eviction.Eviction, p Processes, grace time.Duration, change Changes) (Result, error) {
	if v.Soft == nil || !e.Pod.FromAPI {
		ended, err := p.End(ctx, grace, change.Escalate)
		return Result{Ended: ended}, err
	}
	s := &softEviction{Evictor: v, notice: Notice{e, time.Now(), p.Containers()}, grace: grace,
		answers: make(chan reply, 1), ask: unset(), late: unset()}
	r, escalate, err := s.run(ctx, p, change)
	if !escalate {
		return r, err
	}
	reporting, cancel := context.WithTimeout(ctx, escalatedPatience)
	defer cancel()
	return v.immediate(ctx, reporting, context.Background(), e, p, func(ctx context.Context) (Ended, error) {
		return p.End(ctx, 0, change.Escalate)
	})
}

// unset returns a timer that is not running.
func unset() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// softEviction is the state of a requested eviction.
type softEviction struct {
	*Evictor
	notice    Notice
	grace     time.Duration
	answers   chan reply
	asking    bool   // a request is in progress
	quit      func() // cancels the requests
	ask, late *time.Timer
	accepted  bool
	waits     bool   // late is running
	why       string // the last refusal
}

type reply struct {
	Answer
	err error
}

// run sends the request until the pod is ending, and waits for its end. It returns escalate if the
// pod must be killed instead.
func (s *softEviction) run(ctx context.Context, p Processes, change Changes) (r Result, escalate bool, err error) {
	begun := time.Now()
	asking, quit := context.WithCancel(ctx)
	s.quit = quit
	defer quit()
	watch, stop := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { gone <- p.Await(watch) }()
	defer func() { // a subsequent kill needs what Await holds
		stop()
		if gone != nil {
			<-gone
		}
	}()
	defer s.ask.Stop()
	defer s.late.Stop()
	s.request(asking) // before the wait, so that a pod without processes is requested too
	for {
		select {
		case err := <-gone:
			gone = nil
			r.ExitTime = time.Since(begun)
			return s.ended(ctx, r, err, change.Escalate)
		case <-change.Escalate:
			return r, true, nil
		case <-change.Withdraw:
			change.Withdraw = nil
			if !s.stopAsking() {
				return s.withdraw(ctx, r, nil)
			}
		case <-s.ask.C:
			s.request(asking)
		case a := <-s.answers:
			s.handle(a)
		case <-s.late.C:
			return s.overdue(ctx, r)
		}
	}
}

// ended returns the result for a pod without processes: evicted if its deletion was requested.
// Otherwise the pod has ended by itself, may be restarted, and was not evicted.
func (s *softEviction) ended(ctx context.Context, r Result, err error, escalate <-chan struct{}) (Result, bool, error) {
	if s.carriedOut() || ctx.Err() != nil { // the next run withdraws a request that remains
		return r, false, err
	}
	select {
	case <-escalate: // an immediate end may have killed it already: the server must receive the status
		return r, true, nil
	default:
	}
	if s.awaitFinalAnswer(ctx, escalate) {
		return r, false, err
	}
	return s.withdraw(ctx, r, err)
}

// awaitFinalAnswer waits for the API server's record of a pod that is gone, and reports whether its
// deletion was requested. An escalation ends the wait.
func (s *softEviction) awaitFinalAnswer(ctx context.Context, escalate <-chan struct{}) bool {
	bounded, cancel := context.WithTimeout(ctx, finalAnswerTime)
	defer cancel()
	select {
	case <-escalate:
	case <-bounded.Done():
	}
	return s.stopAsking()
}

// overdue gives up a pod that should have ended by now.
func (s *softEviction) overdue(ctx context.Context, r Result) (Result, bool, error) {
	pod := s.notice.Eviction.Pod.Key()
	if s.stopAsking() {
		return r, false, fmt.Errorf("pod %s has not exited within its grace period of %s and %s more", pod, s.grace, cleanupTime)
	}
	r.GivenUp = true
	if s.why != "" {
		return s.withdraw(ctx, r, fmt.Errorf("the soft eviction of pod %s was refused for %s: %s", pod, s.grace+unansweredTime, s.why))
	}
	return s.withdraw(ctx, r, fmt.Errorf("evict pod %s softly: no controller has acted on the request within %s: check that plimsoll controller runs in mode replace", pod, s.grace+unansweredTime))
}

// request sends the request; the answer arrives asynchronously.
func (s *softEviction) request(ctx context.Context) {
	s.asking = true
	go func() {
		bounded, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		answer, err := s.Soft.Request(bounded, s.notice, s.grace)
		s.answers <- reply{answer, err}
	}()
}

// handle repeats the request after a refusal or a failure. Once the pod is ending, its time starts.
func (s *softEviction) handle(a reply) {
	s.asking = false
	switch {
	case a.err != nil:
		s.refused(a.err.Error())
		s.ask.Reset(retryTime)
	case a.Accepted:
		s.accept()
	case a.Retry > 0:
		s.why = a.Why
		s.refused(a.Why)
		s.ask.Reset(a.Retry)
		s.limit()
	default: // the request is stored
		if s.why != "" { // after a refusal: the time begins anew
			s.why, s.waits = "", false
		}
		s.limit()
	}
}

// limit bounds the time for a request to be carried out, starting with its first answer. An
// unresponsive server is no refusal: requests for other pods would fail too.
func (s *softEviction) limit() {
	if !s.waits {
		s.waits = true
		s.late.Reset(s.grace + unansweredTime)
	}
}

// stopAsking ends the requests, so that none follows a withdrawal. It reports whether the pod is
// ending, which the answer to a request in progress may state.
func (s *softEviction) stopAsking() (ending bool) {
	s.quit()
	if s.asking {
		s.asking = false
		if a := <-s.answers; a.err == nil && a.Accepted {
			s.accept()
		}
	}
	return s.carriedOut()
}

func (s *softEviction) accept() {
	s.accepted = true
	s.ask.Stop()
	s.late.Reset(s.grace + cleanupTime)
	if s.Status != nil {
		s.Status.Announce(s.notice)
	}
}

// carriedOut reports whether the requested pod is being deleted. Measurements may show its end
// before an answer arrives, since memory returns as the pod ends.
func (s *softEviction) carriedOut() bool {
	if !s.accepted && s.Soft.Ending(s.notice) {
		s.accept()
	}
	return s.accepted
}

func (s *softEviction) refused(why string) {
	if s.Refused != nil {
		s.Refused(s.notice.Eviction, why)
	}
}

// withdraw withdraws the request: the pod is not evicted, for the reason why, if any.
func (s *softEviction) withdraw(ctx context.Context, r Result, why error) (Result, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r.Withdrawn = true
	if err := s.Soft.Withdraw(bounded, s.notice); err != nil {
		why = errors.Join(why, fmt.Errorf("withdraw the soft eviction of pod %s: %w", s.notice.Eviction.Pod.Key(), err))
	}
	return r, false, why
}
