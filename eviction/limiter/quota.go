package limiter

import (
	"slices"
	"time"
)

// spending is one eviction that counts against the hourly quota.
type spending struct {
	at        time.Time
	namespace string // empty if restored from a state without it
}

func (r *Limiter) spend(namespace string, now time.Time) {
	r.spent = append(r.spent, spending{now, namespace})
	r.shares[namespace]++
}

// refund removes the eviction of a namespace recorded at the given time.
func (r *Limiter) refund(namespace string, at time.Time) {
	if i := slices.IndexFunc(r.spent, func(s spending) bool { return s.namespace == namespace && s.at.Equal(at) }); i >= 0 {
		r.release(namespace)
		r.spent = slices.Delete(slices.Clone(r.spent), i, i+1)
	}
}

func (r *Limiter) release(namespace string) {
	if r.shares[namespace]--; r.shares[namespace] == 0 {
		delete(r.shares, namespace)
	}
}

// Spent returns the limit on a namespace that has used up its share while the hourly quota of the
// node is used up. The share is the quota divided by the number of namespaces with evictions
// within the hour, this one included, and at least one. Evictions of one namespace thus never
// limit another one below its share. Urgent evictions, for exhausted resources, have a quota of
// UrgentBounds times as many.
func (r *Limiter) Spent(namespace string, urgent bool, now time.Time) Limit {
	if r == nil || r.policy.PerHour == 0 {
		return Limit{}
	}
	r.forget(now)
	bound := r.policy.PerHour
	if urgent {
		bound *= UrgentBounds
	}
	had, namespaces := r.shares[namespace], len(r.shares)
	if had == 0 {
		namespaces++
	}
	share := max(1, bound/namespaces)
	if len(r.spent) < bound || had < share {
		return Limit{}
	}
	until := r.spent[len(r.spent)-bound].at
	if own := r.nth(namespace, had-share); own.Before(until) {
		until = own
	}
	return Limit{By: Quota, Namespace: namespace, N: len(r.spent), Until: until.Add(window)}
}

// nth returns the time of a namespace's n-th eviction, counted from 0.
func (r *Limiter) nth(namespace string, n int) (at time.Time) {
	for i := range r.spent {
		if r.spent[i].namespace != namespace {
			continue
		}
		if n == 0 {
			return r.spent[i].at
		}
		n--
	}
	return at
}

// forget drops evictions older than one hour.
func (r *Limiter) forget(now time.Time) {
	n := 0
	for n < len(r.spent) && now.Sub(r.spent[n].at) >= window {
		r.release(r.spent[n].namespace)
		n++
	}
	r.spent = r.spent[n:]
}
