package limiter

import "time"

// history is the record of an owner's evicted pods.
type history struct {
	evicted []time.Time // the last ones, in order
	waits   int         // consecutive backoffs: the next one lasts twice as long
	until   time.Time
	before  time.Time // until, before the last eviction
}

// note counts an eviction of an owner's pod. If a pod of the owner is evicted again within the
// window after its backoff, the loop continues; after that it begins anew.
func (r *Limiter) note(owner string, now time.Time) {
	for name, h := range r.owners {
		if h.over(now) {
			delete(r.owners, name)
		}
	}
	h := r.owners[owner]
	if h == nil {
		h = &history{}
		r.owners[owner] = h
	}
	h.before = h.until
	h.evicted = append(h.evicted, now)
	h.evicted = h.evicted[max(0, len(h.evicted)-loop-1):] // one more, in case this one is withdrawn
	if n := len(h.evicted); h.waits > 0 || n >= loop && now.Sub(h.evicted[n-loop]) <= loopWindow {
		h.waits++
		h.until = now.Add(doubled(r.policy.OwnerBackoff, h.waits, MaxOwner))
	}
}

// over reports whether the history has no further effect.
func (h *history) over(now time.Time) bool {
	last := h.until
	if n := len(h.evicted); n > 0 && h.evicted[n-1].After(last) {
		last = h.evicted[n-1]
	}
	return now.Sub(last) > loopWindow
}

// withdraw removes an eviction and its backoff.
func (h *history) withdraw(at time.Time) {
	n := len(h.evicted) - 1
	if n < 0 || !h.evicted[n].Equal(at) {
		return
	}
	h.evicted = h.evicted[:n]
	if h.waits > 0 {
		h.waits--
		h.until = h.before
	}
}

// RestartLoop returns the limit on pods of an owner that recreates evicted pods. An empty owner
// has none.
func (r *Limiter) RestartLoop(owner string, now time.Time) Limit {
	if r == nil || owner == "" || r.policy.OwnerBackoff == 0 {
		return Limit{}
	}
	h := r.owners[owner]
	if h == nil || !now.Before(h.until) {
		return Limit{}
	}
	return Limit{By: Owner, N: h.waits + loop - 1, Until: h.until}
}
