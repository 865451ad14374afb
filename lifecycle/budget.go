package lifecycle

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A class is how urgent a request is.
type class uint8

// The classes, most urgent first.
const (
	protect class = iota // what keeps pods away from a node, and finds out about it; what calls evictions off
	evict                // what moves pods off a node
	repair               // what tells that pods are not ready, or that a node is back
	tidy                 // labels, and what agents left behind
	classes              // how many there are
)

var classNames = [...]string{protect: "protect", evict: "evict", repair: "repair", tidy: "tidy"}

// String is the class as metrics have it.
func (c class) String() string { return classNames[c] }

// Classes are the names of the classes of requests, most urgent first.
func Classes() []string { return classNames[:] }

// A rank is the place of a request among those that wait: by class, and within it
// what goes on with something that was begun comes first.
type rank uint8

const ranks = 2 * rank(classes)

func rankOf(c class, begun bool) rank {
	if begun {
		return 2 * rank(c)
	}
	return 2*rank(c) + 1
}

// A budget lets requests begin at no more than a rate, and as many at once as it
// has saved up. They go by rank; within one, who asked first goes first.
type budget struct {
	every time.Duration // between two turns, in the long run
	most  time.Duration // what can be saved up, as time

	mu      sync.Mutex
	next    time.Time // when the turn after all that were taken would be, without savings
	waiting [ranks][]chan struct{}
	alarm   *time.Timer // runs while somebody waits
}

// newBudget makes a budget of qps requests per second; a negative qps is no bound.
func newBudget(qps float64, burst int) *budget {
	if qps < 0 {
		return &budget{}
	}
	every := time.Duration(float64(time.Second) / qps)
	return &budget{every: every, most: time.Duration(max(burst, 1)-1) * every}
}

// take waits for a turn; ctx ends the wait.
func (b *budget) take(ctx context.Context, r rank) error {
	_, err := b.takeUnless(ctx, r, nil)
	return err
}

// takeUnless does so unless the request becomes urgent, which ends the wait without a
// turn and without an error.
func (b *budget) takeUnless(ctx context.Context, r rank, urgent <-chan struct{}) (taken bool, err error) {
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
		b.leave(r, mine)
		return false, nil
	case <-ctx.Done():
		b.leave(r, mine)
		return false, ctx.Err()
	}
}

// leave takes a waiter out. A turn that it got meanwhile is lost.
func (b *budget) leave(r rank, mine chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting[r], mine); i >= 0 {
		b.waiting[r] = slices.Delete(b.waiting[r], i, i+1)
	}
}

// putBack takes a turn back that was not used.
func (b *budget) putBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = b.next.Add(-b.every)
	b.grant(time.Now())
}

// grant gives the turns that are due, and sees to it that the next one is given
// in time. The caller holds mu.
func (b *budget) grant(now time.Time) {
	for r := range b.waiting {
		for len(b.waiting[r]) > 0 {
			if earliest := now.Add(-b.most); b.next.Before(earliest) {
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
