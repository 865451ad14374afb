package limiter

import "time"

// history is what became of an owner's pods.
type history struct {
	evicted []time.Time // the last ones, in their order
	waits   int         // that followed each other: the next one lasts twice as long
	until   time.Time
	before  time.Time // until, as it was before the last eviction
}

// note counts an eviction of an owner's pod. An owner whose pod is evicted again
// within the window after its wait goes on in its loop; after that it begins
// anew.
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
	h.evicted = h.evicted[max(0, len(h.evicted)-loop-1):] // one more, should this be withdrawn
	if n := len(h.evicted); h.waits > 0 || n >= loop && now.Sub(h.evicted[n-loop]) <= loopWindow {
		h.waits++
		h.until = now.Add(doubled(r.policy.OwnerBackoff, h.waits, MaxOwner))
	}
}

// over reports whether nothing follows from the history any more.
func (h *history) over(now time.Time) bool {
	last := h.until
	if n := len(h.evicted); n > 0 && h.evicted[n-1].After(last) {
		last = h.evicted[n-1]
	}
	return now.Sub(last) > loopWindow
}

// withdraw takes an eviction back, and the wait that it led to.
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

// RestartLoop is the hold of pods whose owner brings them back to be evicted again;
// "" is no owner.
func (r *Limiter) RestartLoop(owner string, now time.Time) Limit {
	if r == nil || owner == "" {
		return Limit{}
	}
	h := r.owners[owner]
	if h == nil || !now.Before(h.until) {
		return Limit{}
	}
	return Limit{By: Owner, N: h.waits + loop - 1, Until: h.until}
}
