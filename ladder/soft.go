package ladder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

const (
	// hurriedPatience is how long the API server is waited for when a hard
	// threshold was crossed during a soft eviction: it was reached before.
	hurriedPatience = 200 * time.Millisecond
	// tidyTime is what a pod that has used up its grace period may take to be
	// gone, as the kubelet allows for its cleanup.
	tidyTime = 30 * time.Second
	// unansweredTime is how long a request that somebody else is to act on may
	// stand beside the pod's grace period: then nobody is there who does, and
	// other pods must not wait for it for ever.
	unansweredTime = 5 * time.Minute
	// requestTime bounds one request.
	requestTime = 10 * time.Second
	// retryTime is the pause after a request that failed.
	retryTime = 5 * time.Second
)

// Changes reach a graceful end under way.
type Changes struct {
	Hurry    <-chan struct{} // closed when the pod has to end at once
	Withdraw <-chan struct{} // closed when nobody has to end any more
}

// Graceful has the pod end within its grace period.
func (l *Ladder) Graceful(ctx context.Context, e *eviction.Eviction, p Processes, grace time.Duration, change Changes) (Result, error) {
	if l.Soft == nil || !e.Pod.FromAPI {
		ended, err := p.End(ctx, grace, change.Hurry)
		return Result{Ended: ended}, err
	}
	s := &softEviction{Ladder: l, notice: Notice{e, time.Now(), p.Containers()}, grace: grace, answers: make(chan reply, 1)}
	r, hurry, err := s.run(ctx, p, change)
	if !hurry {
		return r, err
	}
	telling, cancel := context.WithTimeout(ctx, hurriedPatience)
	defer cancel()
	return l.immediate(ctx, telling, e, p, func(ctx context.Context) (Ended, error) {
		return p.End(ctx, 0, change.Hurry)
	})
}

// A softEviction is one that is asked for.
type softEviction struct {
	*Ladder
	notice   Notice
	grace    time.Duration
	answers  chan reply
	accepted bool
}

type reply struct {
	Answer
	err error
}

// run asks until the pod is ending, and waits for its end. Hurry says that it
// has to be killed instead.
func (s *softEviction) run(ctx context.Context, p Processes, change Changes) (r Result, hurry bool, err error) {
	begun := time.Now()
	watch, stop := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() { gone <- p.Await(watch) }()
	defer func() { // whoever kills next needs what Await holds
		stop()
		if gone != nil {
			<-gone
		}
	}()
	ask, late := time.NewTimer(0), time.NewTimer(time.Hour)
	late.Stop()
	defer ask.Stop()
	defer late.Stop()
	for {
		select {
		case err := <-gone:
			gone = nil
			s.carriedOut()
			r.ToEmpty = time.Since(begun)
			return r, false, err
		case <-change.Hurry:
			return r, true, nil
		case <-change.Withdraw:
			change.Withdraw = nil
			if !s.carriedOut() {
				r.Withdrawn = true
				return r, false, s.takeBack(ctx)
			}
		case <-ask.C:
			go s.request(watch)
		case a := <-s.answers:
			s.heed(a, ask, late)
		case <-late.C:
			if !s.carriedOut() {
				return r, false, errors.Join(fmt.Errorf("nobody has evicted pod %s, which was asked for %s ago: is plimsoll controller running?",
					s.notice.Eviction.Pod.Key(), s.grace+unansweredTime), s.takeBack(ctx))
			}
			return r, false, fmt.Errorf("pod %s was asked to end and has not after its grace period of %s and %s more", s.notice.Eviction.Pod.Key(), s.grace, tidyTime)
		}
	}
}

func (s *softEviction) request(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	answer, err := s.Soft.Request(bounded, s.notice, s.grace)
	s.answers <- reply{answer, err}
}

// heed asks again after a refusal or a failure; once the pod is ending its time
// runs.
func (s *softEviction) heed(a reply, ask, late *time.Timer) {
	switch {
	case a.err != nil:
		s.refused(a.err.Error())
		ask.Reset(retryTime)
	case a.Accepted:
		s.accept()
		late.Reset(s.grace + tidyTime)
	case a.Retry > 0:
		s.refused(a.Why)
		ask.Reset(a.Retry)
	default:
		late.Reset(s.grace + unansweredTime)
	}
}

func (s *softEviction) accept() {
	s.accepted = true
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

func (s *softEviction) takeBack(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if err := s.Soft.Withdraw(bounded, s.notice); err != nil {
		return fmt.Errorf("withdraw the soft eviction of pod %s: %w", s.notice.Eviction.Pod.Key(), err)
	}
	return nil
}
