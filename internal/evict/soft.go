package evict

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

const (
	// escalatedPatience is how long the API server is waited for when a hard
	// threshold was crossed during a soft eviction: it was reached before.
	escalatedPatience = 200 * time.Millisecond
	// cleanupTime is what a pod that has used up its grace period may take to be
	// gone, as the kubelet allows for its cleanup.
	cleanupTime = 30 * time.Second
	// unansweredTime is how long a request may be refused by a budget, or not acted
	// on, beside the pod's grace period. Then the pod is given up on: other pods
	// wait for it.
	unansweredTime = 5 * time.Minute
	// requestTime bounds one request.
	requestTime = 10 * time.Second
	// retryTime is the pause after a request that failed.
	retryTime = 5 * time.Second
	// finalAnswerTime is how long the API server's word may take of who has ended a pod
	// that was only asked for: a watch is a moment behind what it tells of.
	finalAnswerTime = 2 * time.Second
)

// Changes reach a graceful end under way.
type Changes struct {
	Escalate <-chan struct{} // closed when the pod has to end at once
	Withdraw <-chan struct{} // closed when nobody has to end any more
}

// Graceful has the pod end within its grace period.
func (l *Evictor) Graceful(ctx context.Context, e *eviction.Eviction, p Processes, grace time.Duration, change Changes) (Result, error) {
	if l.Soft == nil || !e.Pod.FromAPI {
		ended, err := p.End(ctx, grace, change.Escalate)
		return Result{Ended: ended}, err
	}
	s := &softEviction{Evictor: l, notice: Notice{e, time.Now(), p.Containers()}, grace: grace,
		answers: make(chan reply, 1), ask: unset(), late: unset()}
	r, hurry, err := s.run(ctx, p, change)
	if !hurry {
		return r, err
	}
	telling, cancel := context.WithTimeout(ctx, escalatedPatience)
	defer cancel()
	return l.immediate(ctx, telling, context.Background(), e, p, func(ctx context.Context) (Ended, error) {
		return p.End(ctx, 0, change.Escalate)
	})
}

// unset is a timer that is not running.
func unset() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// A softEviction is one that is asked for.
type softEviction struct {
	*Evictor
	notice    Notice
	grace     time.Duration
	answers   chan reply
	asking    bool   // an answer is on its way
	quit      func() // ends the asking
	ask, late *time.Timer
	accepted  bool
	waits     bool   // late is running
	why       string // the last refusal
}

type reply struct {
	Answer
	err error
}

// run asks until the pod is ending, and waits for its end. Hurry says that it
// has to be killed instead.
func (s *softEviction) run(ctx context.Context, p Processes, change Changes) (r Result, hurry bool, err error) {
	begun := time.Now()
	asking, quit := context.WithCancel(ctx)
	s.quit = quit
	defer quit()
	watch, stop := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { gone <- p.Await(watch) }()
	defer func() { // whoever kills next needs what Await holds
		stop()
		if gone != nil {
			<-gone
		}
	}()
	defer s.ask.Stop()
	defer s.late.Stop()
	s.request(asking) // first, also of a pod that runs nothing
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

// ended says of a pod without processes who has ended it. If nobody was to, it has
// ended by itself, may be started again, and was not evicted.
func (s *softEviction) ended(ctx context.Context, r Result, err error, hurry <-chan struct{}) (Result, bool, error) {
	if s.carriedOut() || ctx.Err() != nil { // whoever comes next takes back what stands
		return r, false, err
	}
	select {
	case <-hurry: // it may have been killed already, of which the server is to be told
		return r, true, nil
	default:
	}
	if s.awaitFinalAnswer(ctx, hurry) {
		return r, false, err
	}
	return s.withdraw(ctx, r, err)
}

// awaitFinalAnswer waits for what the API server has to say of a pod that is gone, and
// reports whether it was asked to end. Who has to hurry does not wait.
func (s *softEviction) awaitFinalAnswer(ctx context.Context, hurry <-chan struct{}) bool {
	word, cancel := context.WithTimeout(ctx, finalAnswerTime)
	defer cancel()
	select {
	case <-hurry:
	case <-word.Done():
	}
	return s.stopAsking()
}

// overdue gives up a pod that should have ended by now.
func (s *softEviction) overdue(ctx context.Context, r Result) (Result, bool, error) {
	pod := s.notice.Eviction.Pod.Key()
	if s.stopAsking() {
		return r, false, fmt.Errorf("pod %s was asked to end and has not after its grace period of %s and %s more", pod, s.grace, cleanupTime)
	}
	r.GivenUp = true
	if s.why != "" {
		return s.withdraw(ctx, r, fmt.Errorf("the soft eviction of pod %s was refused for %s: %s", pod, s.grace+unansweredTime, s.why))
	}
	return s.withdraw(ctx, r, fmt.Errorf("nobody has evicted pod %s, which was asked for %s ago: is plimsoll controller running?", pod, s.grace+unansweredTime))
}

// request asks; the answer comes later.
func (s *softEviction) request(ctx context.Context) {
	s.asking = true
	go func() {
		bounded, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		answer, err := s.Soft.Request(bounded, s.notice, s.grace)
		s.answers <- reply{answer, err}
	}()
}

// handle asks again after a refusal or a failure; once the pod is ending its time
// runs.
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
	default:
		s.limit()
	}
}

// limit bounds the time for a request to be carried out, from its first answer on. A
// server that does not answer is no refusal: it would not answer for other pods.
func (s *softEviction) limit() {
	if !s.waits {
		s.waits = true
		s.late.Reset(s.grace + unansweredTime)
	}
}

// stopAsking ends the asking, so that nothing is asked for after it was taken back, and
// reports whether the pod is ending: an answer that was on its way may say so.
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

// carriedOut reports whether whoever was asked has had the pod deleted: what is
// measured may say so before anybody answers, since memory comes back as it ends.
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

// withdraw withdraws what was asked for: the pod is not evicted, for the reason
// that why tells, if any.
func (s *softEviction) withdraw(ctx context.Context, r Result, why error) (Result, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	r.Withdrawn = true
	if err := s.Soft.Withdraw(bounded, s.notice); err != nil {
		why = errors.Join(why, fmt.Errorf("withdraw the soft eviction of pod %s: %w", s.notice.Eviction.Pod.Key(), err))
	}
	return r, false, why
}
