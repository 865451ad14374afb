package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"
)

// class is the urgency of a request.
type class uint8

// The classes, most urgent first.
const (
	protect class = iota // keeps pods away from a node, or detects that need; cancels evictions
	evict                // moves pods off a node
	repair               // marks pods as not ready, or a node as back
	tidy                 // labels, and leftovers of agents
	classes              // their number
)

var classNames = [...]string{protect: "protect", evict: "evict", repair: "repair", tidy: "tidy"}

// String returns the class as metrics have it.
func (c class) String() string { return classNames[c] }

// Classes returns the names of the classes of requests, most urgent first.
func Classes() []string { return classNames[:] }

// rank is the order of a waiting request: by class, and within a class further requests of a
// running task come first.
type rank uint8

const ranks = 2 * rank(classes)

func rankOf(c class, begun bool) rank {
	if begun {
		return 2 * rank(c)
	}
	return 2*rank(c) + 1
}

// budget limits the rate at which requests start, with a burst. Waiting requests start by rank,
// and within a rank in the order of their calls.
type budget struct {
	every time.Duration // mean time between two turns
	burst time.Duration // burst, as time

	mu      sync.Mutex
	next    time.Time // the next turn without a burst
	waiting [ranks][]chan struct{}
	alarm   *time.Timer // runs while requests wait
}

// newBudget returns a budget of qps requests per second; a negative qps is no bound.
func newBudget(qps float64, burst int) *budget {
	if qps < 0 {
		return &budget{}
	}
	every := time.Duration(float64(time.Second) / qps)
	return &budget{every: every, burst: time.Duration(max(burst, 1)-1) * every}
}

// acquire waits for the turn of a request. It returns an error if ctx ends first.
func (b *budget) acquire(ctx context.Context, r rank) error {
	_, err := b.acquireUnless(ctx, r, nil)
	return err
}

// acquireUnless does the same, but ends without a turn and without an error once the
// request becomes urgent.
func (b *budget) acquireUnless(ctx context.Context, r rank, urgent <-chan struct{}) (acquired bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	select {
	case <-urgent:
		return false, nil
	default:
	}
	mine := make(chan struct{})
	b.mu.Lock()
	b.waiting[r] = append(b.waiting[r], mine)
	b.grant(time.Now())
	b.mu.Unlock()
	select {
	case <-mine:
		return true, nil
	case <-urgent:
		b.cancel(r, mine)
		return false, nil
	case <-ctx.Done():
		b.cancel(r, mine)
		return false, ctx.Err()
	}
}

// cancel removes a waiting request. A turn that it was granted meanwhile is lost.
func (b *budget) cancel(r rank, mine chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting[r], mine); i >= 0 {
		b.waiting[r] = slices.Delete(b.waiting[r], i, i+1)
	}
}

// release returns an unused turn.
func (b *budget) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = b.next.Add(-b.every)
	b.grant(time.Now())
}

// grant grants the turns that are due, and sets the timer for the next one. The caller must hold
// mu.
func (b *budget) grant(now time.Time) {
	for r := range b.waiting {
		for len(b.waiting[r]) > 0 {
			if earliest := now.Add(-b.burst); b.next.Before(earliest) {
				b.next = earliest
			}
			if b.next.After(now) {
				b.wakeAt(b.next.Sub(now))
				return
			}
			b.next = b.next.Add(b.every)
			close(b.waiting[r][0])
			b.waiting[r] = b.waiting[r][1:]
		}
	}
}

func (b *budget) wakeAt(in time.Duration) {
	if b.alarm != nil {
		b.alarm.Reset(in)
		return
	}
	b.alarm = time.AfterFunc(in, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.grant(time.Now())
	})
}
