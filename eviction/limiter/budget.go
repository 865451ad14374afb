package limiter

import (
	"slices"
	"time"
)

// A spending is one eviction that counts against the bound of an hour.
type spending struct {
	at        time.Time
	namespace string // empty in a state that was saved without it
}

func (r *Limiter) spend(namespace string, now time.Time) {
	r.spent = append(r.spent, spending{now, namespace})
	r.shares[namespace]++
}

// refund removes the eviction of a namespace that was noted at a time.
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

// Spent is the hold of a namespace that has had its share of an hour in which the
// node has had its evictions. The share is the bound divided by the namespaces that
// lost pods within the hour, this one included, and at least one: what the pods of
// one namespace cost never holds another one that has had less than its share.
// Urgent evictions, for what is exhausted, have a bound of UrgentBounds times as
// many.
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

// nth is the time of a namespace's eviction, counted from 0.
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

// forget drops evictions that no hour which ends now or later has in it.
func (r *Limiter) forget(now time.Time) {
	n := 0
	for n < len(r.spent) && now.Sub(r.spent[n].at) >= window {
		r.release(r.spent[n].namespace)
		n++
	}
	r.spent = r.spent[n:]
}
