package limiter

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// A Policy is what the operator wants. Its zero value restrains nothing.
type Policy struct {
	PerHour       int           // evictions, shared by namespaces; 0: no bound
	Futile        int           // in a row; 0: whether evictions help is not asked
	FutileBackOff time.Duration // first; doubles up to LongestFutile
	OwnerBackoff  time.Duration // first; doubles up to LongestOwner. 0: off
}

// Bounds of back-offs, and what makes pods of one owner a loop.
const (
	MaxFutile  = time.Hour
	MaxOwner   = 30 * time.Minute
	window     = time.Hour // of the bound
	loop       = 3         // evictions
	loopWindow = 10 * time.Minute
	// UrgentBounds is how many times [Policy.PerHour] is allowed while what is short
	// is exhausted.
	UrgentBounds = 5
)

// A Cause is why nobody, or not this pod, is evicted.
type Cause uint8

// The causes.
const (
	None        Cause = iota
	Quota             // as many as an hour may have
	Ineffective       // the last ones did not help
	Owner             // its owner's pods come back and are evicted again and again
	CauseCount
)

func (c Cause) String() string { return [...]string{"", "quota", "ineffective", "owner"}[c] }

// A Limit is that somebody is spared; the zero Hold spares nobody.
type Limit struct {
	By        Cause
	Condition signals.Condition // of Futile: whose relief is waited with
	Namespace string            // of Budget: the one that has had its share
	N         int               // evictions that led to it
	Until     time.Time         // when it is over at the latest
}

// Explain says the hold in words.
func (h Limit) Explain(now time.Time) string {
	left := h.Until.Sub(now).Round(time.Millisecond)
	switch h.By {
	case Quota:
		return fmt.Sprintf("%d evictions within an hour, and namespace %s has used up its share: none of its pods is evicted for %s", h.N, h.Namespace, left)
	case Ineffective:
		return fmt.Sprintf("the last %d evictions for %s freed less than half of what their pods used, because usage outside of pods grew: no pod is evicted for %s, unless the pressure ends before", h.N, h.Condition, left)
	case Owner:
		return fmt.Sprintf("%d pods of its owner were evicted, one after the other: the pod is spared for %s", h.N, left)
	}
	return ""
}

// Limiter remembers evictions. It is owned by one goroutine; a nil one
// restrains nothing.
type Limiter struct {
	policy Policy
	spent  []spending     // evictions within the window, in their order
	shares map[string]int // how many of them each namespace has had
	relief [signals.ConditionCount]relief
	owners map[string]*history
	moved  bool // something that is saved has changed
}

// New returns a restraint that has seen no eviction.
func New(p Policy) *Limiter {
	return &Limiter{policy: p, shares: map[string]int{}, owners: map[string]*history{}}
}

// Evicted notes that a pod of a namespace and of an owner, "" for none, was evicted
// or is about to.
func (r *Limiter) Evicted(namespace, owner string, now time.Time) {
	if r == nil {
		return
	}
	r.moved = true
	if r.policy.PerHour > 0 {
		r.forget(now)
		r.spend(namespace, now)
	}
	if r.policy.OwnerBackoff > 0 && owner != "" {
		r.note(owner, now)
	}
}

// Withdrawn takes back an eviction that was noted at a time and did not happen.
func (r *Limiter) Withdrawn(namespace, owner string, at time.Time) {
	if r == nil {
		return
	}
	r.moved = true
	r.refund(namespace, at)
	if h := r.owners[owner]; h != nil {
		h.withdraw(at)
	}
}

// doubled is a back-off after a number of times, the first one undoubled.
func doubled(first time.Duration, times int, longest time.Duration) time.Duration {
	d := first
	for range times - 1 {
		if d >= longest {
			break
		}
		d *= 2
	}
	return min(d, longest)
}
