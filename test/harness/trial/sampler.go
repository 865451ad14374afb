package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// sampleInterval is the interval between two samples.
const sampleInterval = 4 * time.Millisecond

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
	err  error
}

// Observation is the result of the sampler over a period.
type Observation struct {
	MinAvailable int64         // available, in bytes
	MinHard      int64         // available without page cache, in bytes
	Under        time.Duration // time below the threshold
	MaxGap       time.Duration // between two samples
}

func watch(n *sandbox.Node, threshold int64) *sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &sampler{threshold: threshold, stop: stop, done: make(chan struct{}), last: time.Now()}
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
	now := time.Now()
	gap := now.Sub(s.last)
	s.last = now
	s.seen.MaxGap = max(s.seen.MaxGap, gap)
	left := n.Limit() - used
	s.seen.MinAvailable, s.seen.MinHard = min(s.seen.MinAvailable, left), min(s.seen.MinHard, n.Limit()-charged+cache)
	if left < s.threshold {
		s.seen.Under += gap
	}
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

func (s *sampler) close() {
	s.stop()
	<-s.done
}
