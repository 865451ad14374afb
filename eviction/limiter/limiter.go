package limiter

import (
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Policy is the configuration of a [Limiter]. The zero value limits nothing.
type Policy struct {
	PerHour            int           // evictions, shared by namespaces; 0: no quota
	MaxIneffective     int           // consecutive ineffective evictions; 0: effects are not evaluated
	IneffectiveBackoff time.Duration // initial; doubles up to MaxIneffectiveBackoff
	OwnerBackoff       time.Duration // initial; doubles up to MaxOwner; 0: off
}

// Maximum backoffs, and the definition of a loop of one owner's pods.
const (
	MaxIneffectiveBackoff = time.Hour
	MaxOwner              = 30 * time.Minute
	window                = time.Hour // of the quota
	loop                  = 3         // evictions
	loopWindow            = 10 * time.Minute
	// UrgentBounds is the factor on [Policy.PerHour] while the resource is exhausted.
	UrgentBounds = 5
)

// Cause is the reason of a [Limit].
type Cause uint8

// The causes.
const (
	None        Cause = iota
	Quota             // the hourly quota is used up
	Ineffective       // the last evictions had no effect
	Owner             // its owner's pods are recreated and evicted repeatedly
	CauseCount
)

func (c Cause) String() string { return [...]string{"", "quota", "ineffective", "owner"}[c] }

// Limit is why evictions are limited; the zero value limits nothing.
type Limit struct {
	By        Cause
	Condition signals.Condition // of Ineffective: the condition with ineffective evictions
	Namespace string            // of Quota: the namespace without a share left
	N         int               // number of evictions that led to it
	Until     time.Time         // latest end
}

// Explain describes the limit in words.
func (h Limit) Explain(now time.Time) string {
	left := h.Until.Sub(now).Round(time.Millisecond)
	switch h.By {
	case Quota:
		return fmt.Sprintf("%d evictions within an hour, and namespace %s has used up its share: none of its pods is evicted for %s", h.N, h.Namespace, left)
	case Ineffective:
		return fmt.Sprintf("the last %d evictions for %s freed less than half of what their pods used, because usage outside of pods grew: no pod is evicted for %s, unless the pressure ends before", h.N, h.Condition, left)
	case Owner:
		return fmt.Sprintf("%d pods of its owner were evicted in a row: no further one for %s, unless less than half of a hard threshold is left or memory is about to run out", h.N, left)
	}
	return ""
}

// Limiter stores the record of evictions. It is owned by one goroutine. A nil Limiter limits
// nothing.
type Limiter struct {
	policy  Policy
	spent   []spending     // evictions within the window, in order
	shares  map[string]int // number of them per namespace
	records [signals.ConditionCount]record
	owners  map[string]*history
	moved   bool // the state to save has changed
}

// New returns a limiter without a record.
func New(p Policy) *Limiter {
	return &Limiter{policy: p, shares: map[string]int{}, owners: map[string]*history{}}
}

// Policy returns the policy; that of a nil Limiter limits nothing.
func (r *Limiter) Policy() Policy {
	if r == nil {
		return Policy{}
	}
	return r.policy
}

// SetPolicy replaces the policy. The record stays: evictions of the hour count for another quota, and a
// backoff that has begun keeps its end. A limit that is off limits nothing, and continues when it is on
// again. While [Policy.MaxIneffective] is 0 no effect is evaluated, so that of the last eviction is
// dropped.
func (r *Limiter) SetPolicy(p Policy) {
	if r == nil {
		return
	}
	r.policy = p
	if p.MaxIneffective > 0 {
		return
	}
	for i := range r.records {
		r.records[i] = r.records[i].evaluated()
		r.records[i].last = nil
	}
}

// Evicted records the eviction of a pod, done or imminent. An empty owner stands for none. It counts
// for the hourly quota even while there is none: one may be set within the hour.
func (r *Limiter) Evicted(namespace, owner string, now time.Time) {
	if r == nil {
		return
	}
	r.moved = true
	r.forget(now)
	r.spend(namespace, now)
	if r.policy.OwnerBackoff > 0 && owner != "" {
		r.note(owner, now)
	}
}

// Withdrawn removes an eviction that was recorded at the given time and did not happen.
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

// doubled returns the backoff for the given number of times. The first one is not doubled.
func doubled(first time.Duration, times int, maxBackoff time.Duration) time.Duration {
	d := first
	for range times - 1 {
		if d >= maxBackoff {
			break
		}
		d *= 2
	}
	return min(d, maxBackoff)
}
