package stats

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// sampler queries the usage of pods on its own goroutine, and measures pods by the last answer.
// It never waits for an answer.
type sampler struct {
	o Sampling
	// query returns the usage of pods by UID, each with its time of measurement. A result that is
	// not nil is used even with an error.
	query     func(context.Context) (map[string]signals.Usage, error)
	last      atomic.Pointer[sample]
	requested chan struct{} // one slot: a sample is requested early
	cancel    context.CancelFunc
	done      chan struct{}

	unanswered unanswered // of the goroutine

	usages  []signals.Usage // returned by the last measurement
	scratch []signals.Candidate
	failed  error
}

// sample is one answer. It is not modified after it was stored.
type sample struct {
	usages map[string]signals.Usage
	err    error
	ended  time.Time // time of the answer or the failure
}

// startSampler takes the first sample at once, and further ones every period.
func startSampler(o Sampling, query func(context.Context) (map[string]signals.Usage, error)) *sampler {
	if o.Period <= 0 {
		o.Period = defaultPeriod
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &sampler{o: o, query: query, requested: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	s.last.Store(&sample{err: errNoSample})
	go s.run(ctx)
	return s
}

var errNoSample = fmt.Errorf("measure pods: the first sample has not been taken yet")

func (s *sampler) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(s.o.Period)
	defer tick.Stop()
	for s.sample(ctx); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.sample(ctx)
		case <-s.requested:
			if !s.isFresh() { // may have changed since the request
				s.sample(ctx)
			}
		}
	}
}

// minSampleInterval is the minimum time between two requested samples.
const minSampleInterval = time.Second

func (s *sampler) isFresh() bool { return time.Since(s.last.Load().ended) < minSampleInterval }

// sample queries once, but not in the pause after no answer. Without an answer the previous one stays and ages.
func (s *sampler) sample(ctx context.Context) {
	if s.unanswered.paused() != nil {
		return
	}
	asking, cancel := context.WithTimeout(ctx, s.o.Period)
	defer cancel()
	usages, err := s.query(asking)
	err = s.unanswered.note(ctx, asking, err)
	now := time.Now()
	if usages == nil {
		usages = s.last.Load().usages
	} else if fault := s.validate(usages, now); err == nil {
		err = fault
	}
	s.last.Store(&sample{usages, err, now})
}

// slack is the tolerated time of a measurement in the future: clocks have steps.
const slack = time.Second

// validate removes invalid and outdated values. It converts times of another program to those of
// this program's clock, which does not jump. Returns an error with the first invalid value.
func (s *sampler) validate(usages map[string]signals.Usage, now time.Time) (fault error) {
	for uid, u := range usages {
		age := now.Sub(u.Time)
		if u.Time.IsZero() || age > 2*s.o.Period || age < -slack {
			delete(usages, uid)
			continue
		}
		u.Time = now.Add(-max(age, 0))
		err := s.limit(&u.Memory)
		for i := range u.Containers {
			if e := s.limit(&u.Containers[i].Memory); err == nil {
				err = e
			}
		}
		if p := u.Processes.Value; p < 0 || p > maxPIDs {
			u.Processes = signals.Measured[signals.PIDs]{}
			err = fmt.Errorf("%d processes", p)
		}
		usages[uid] = u
		if err != nil && fault == nil {
			fault = fmt.Errorf("measure pod %s: it can not use %w; its usage is not known", uid, err)
		}
	}
	return fault
}

// maxPIDs is PID_MAX_LIMIT of include/linux/threads.h.
const maxPIDs = 1 << 22

// limit makes memory unknown if it exceeds that of the machine.
func (s *sampler) limit(memory *signals.Measured[signals.Bytes]) error {
	v := memory.Value
	if v >= 0 && v <= absurd && (s.o.Capacity == 0 || v <= s.o.Capacity) {
		return nil
	}
	*memory = signals.Measured[signals.Bytes]{}
	return fmt.Errorf("%d bytes of memory", v)
}

// Prepare requests a sample that is not older than one second.
func (s *sampler) Prepare(pods []signals.Pod) {
	s.request()
	if s.o.Fallback != nil {
		s.o.Fallback.Prepare(pods)
	}
}

func (s *sampler) request() {
	if s.isFresh() {
		return
	}
	select {
	case s.requested <- struct{}{}:
	default: // requested already
	}
}

// Measure returns the usage of each pod in the last sample, and requests another one. See
// [Provider].
func (s *sampler) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return s.measure(pods, into, true)
}

// MeasureMemory is [sampler.Measure], but does not measure missing processes otherwise. A
// sample includes the processes anyway.
func (s *sampler) MeasureMemory(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	return s.measure(pods, into, false)
}

func (s *sampler) measure(pods []signals.Pod, into []signals.Candidate, processes bool) []signals.Candidate {
	s.request()
	last := s.last.Load()
	s.failed = last.err
	if len(s.usages) < len(pods) {
		s.usages = make([]signals.Usage, len(pods))
	}
	first, missing, now := len(into), false, time.Now()
	for i := range pods {
		c := signals.Candidate{Pod: &pods[i]}
		if u, ok := last.usages[pods[i].UID]; ok && now.Sub(u.Time) <= 2*s.o.Period {
			c.Usage = copyUsage(&s.usages[i], &u)
		}
		missing = missing || lacks(c.Usage, processes)
		into = append(into, c)
	}
	if missing && s.o.Fallback != nil {
		s.fill(pods, into[first:], processes)
	}
	return into
}

// copyUsage copies a usage, so that changes by the receiver do not affect the sample.
func copyUsage(to, from *signals.Usage) *signals.Usage {
	containers := append(to.Containers[:0], from.Containers...)
	*to = *from
	to.Containers = containers
	return to
}

func lacks(u *signals.Usage, processes bool) bool {
	return u == nil || !u.Memory.Known || processes && !u.Processes.Known
}

// fill measures pods that the sample does not cover with the other provider.
func (s *sampler) fill(pods []signals.Pod, candidates []signals.Candidate, processes bool) {
	if processes {
		s.scratch = s.o.Fallback.Measure(pods, s.scratch[:0])
	} else {
		s.scratch = s.o.Fallback.MeasureMemory(pods, s.scratch[:0])
	}
	for i := range candidates {
		if c := &candidates[i]; lacks(c.Usage, processes) && s.scratch[i].Usage != nil {
			c.Usage = s.scratch[i].Usage
		}
	}
	if err := s.o.Fallback.Err(); s.failed == nil {
		s.failed = err
	}
}

// Err returns why the last sample is incomplete, or nil.
func (s *sampler) Err() error { return s.failed }

// closeWait bounds the wait for a pending query.
const closeWait = 5 * time.Second

// Close stops the sampling.
func (s *sampler) Close() {
	s.cancel()
	select {
	case <-s.done:
	case <-time.After(closeWait):
	}
}
