package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// sampleInterval is the interval between two samples.
const sampleInterval = 4 * time.Millisecond

// maxFall exceeds the rate at which a step takes available memory, in bytes per second. The working set grows with
// accesses to files, which are no faster than copies.
const maxFall = 2 << 30

// sampler samples the node beside the agent, without side effects. It measures the quantity that
// thresholds compare independently: the limit less the working set.
type sampler struct {
	threshold int64
	stop      context.CancelFunc
	done      chan struct{}

	mu   sync.Mutex
	pods []*sandbox.Pod // their page cache is counted
	seen Observation
	last time.Time
	left int64  // at last, in bytes
	gaps []span // in which memory may have been below the threshold, in order
	err  error
}

// span is a period of time.
type span struct{ from, to time.Time }

// Observation is the result of the sampler over a period.
type Observation struct {
	MinAvailable int64         // available, in bytes
	MinHard      int64         // available without page cache, in bytes
	Under        time.Duration // time below the threshold
	MaxGap       time.Duration // between two samples
}

func watch(n *sandbox.Node, threshold int64) *sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &sampler{threshold: threshold, stop: stop, done: make(chan struct{}), last: time.Now(), left: n.Limit()}
	go func() {
		defer close(s.done)
		for tick := time.NewTicker(sampleInterval); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				s.sample(n)
			}
		}
	}()
	return s
}

func (s *sampler) sample(n *sandbox.Node) {
	used, err := n.WorkingSet()
	charged, usageErr := n.Usage()
	s.mu.Lock()
	defer s.mu.Unlock()
	cache, cacheErr := pageCache(s.pods)
	if err := errors.Join(err, usageErr, cacheErr); err != nil {
		s.err = fmt.Errorf("sample the node: %w", err)
		return
	}
	s.add(time.Now(), n.Limit()-used)
	s.seen.MinHard = min(s.seen.MinHard, n.Limit()-charged+cache)
}

// add adds a sample of the available memory in bytes.
func (s *sampler) add(now time.Time, left int64) {
	gap := now.Sub(s.last)
	if s.left-int64(maxFall*gap.Seconds()) < s.threshold {
		s.noteGap(span{s.last, now})
	}
	s.last, s.left = now, left
	s.seen.MaxGap, s.seen.MinAvailable = max(s.seen.MaxGap, gap), min(s.seen.MinAvailable, left)
	if left < s.threshold {
		s.seen.Under += gap
	}
}

// noteGap adds the time between two samples.
func (s *sampler) noteGap(g span) {
	if n := len(s.gaps) - 1; n >= 0 && s.gaps[n].to.Equal(g.from) {
		s.gaps[n].to = g.to
		return
	}
	s.gaps = append(s.gaps, g)
}

// pageCache returns the page cache of the pods in bytes, which the kernel reclaims before it
// kills.
func pageCache(pods []*sandbox.Pod) (sum int64, err error) {
	for _, p := range pods {
		cache, pErr := p.PageCache("app")
		sum, err = sum+cache, errors.Join(err, pErr)
	}
	return sum, err
}

// begin begins a step of the pods' workloads.
func (s *sampler) begin(pods ...*sandbox.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods, s.seen = pods, Observation{MinAvailable: math.MaxInt64, MinHard: math.MaxInt64}
}

// end returns the observation since begin.
func (s *sampler) end() (Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen, s.err
}

// missed reports whether memory may have been below the threshold between two samples of a period. A late sampler
// misses dips. It waits for the first sample after the period, unless the sampler has failed.
func (s *sampler) missed(p span) bool {
	for tick := time.NewTicker(sampleInterval); ; <-tick.C {
		s.mu.Lock()
		complete := s.last.After(p.to) || s.err != nil
		missed := slices.ContainsFunc(s.gaps, func(g span) bool { return !g.to.Before(p.from) && !p.to.Before(g.from) })
		s.mu.Unlock()
		if complete {
			tick.Stop()
			return missed
		}
	}
}

func (s *sampler) close() {
	s.stop()
	<-s.done
}
