package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/test/sandbox"
)

// shadowPace is how often the shadow looks.
const shadowPace = 4 * time.Millisecond

// A shadow looks at the node beside the agent, and only looks. It measures by
// itself what a threshold is about: the limit less the working set.
type shadow struct {
	threshold int64
	stop      context.CancelFunc
	done      chan struct{}

	mu   sync.Mutex
	seen Sight
	last time.Time
	err  error
}

// A Sight is what the shadow has seen in a while.
type Sight struct {
	Least      int64         // that was left, in bytes
	Under      time.Duration // with less left than the threshold
	LongestGap time.Duration // between two looks
}

func watch(n *sandbox.Node, threshold int64) *shadow {
	ctx, stop := context.WithCancel(context.Background())
	s := &shadow{threshold: threshold, stop: stop, done: make(chan struct{}), last: time.Now()}
	s.seen.Least = n.Limit()
	go func() {
		defer close(s.done)
		for tick := time.NewTicker(shadowPace); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				used, err := n.WorkingSet()
				s.note(n.Limit()-used, err)
			}
		}
	}()
	return s
}

func (s *shadow) note(left int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = fmt.Errorf("the shadow's look at the node: %w", err)
		return
	}
	now := time.Now()
	gap := now.Sub(s.last)
	s.last = now
	s.seen.Least, s.seen.LongestGap = min(s.seen.Least, left), max(s.seen.LongestGap, gap)
	if left < s.threshold {
		s.seen.Under += gap
	}
}

// take returns what was seen since the last call.
func (s *shadow) take(limit int64) (Sight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = Sight{Least: limit}
	return seen, s.err
}

func (s *shadow) close() {
	s.stop()
	<-s.done
}
