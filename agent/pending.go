package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the wait for deleted pods: none of them keeps a hard threshold from being
// acted for by a long grace period, nor do several, one after the other.
const (
	maxPending = 30 * time.Second // since a pod's deletion was seen
	maxWait    = 20 * time.Second // since the threshold was seen to be met
)

// deletedHold is why deleted pods keep a threshold from being acted for.
const deletedHold = "pods being deleted hold the shortage: each is waited for during its grace period, at most 30s"

// deletions are the pods that somebody has deleted.
type deletions struct {
	since map[string]time.Time // by UID: when the deletion was seen first
	until time.Time            // when one that the last look waits for has had its time, zero if none
}

// note takes over which of the pods are deleted.
func (d *deletions) note(pods []signals.Candidate, now time.Time) {
	before := d.since
	d.since = nil
	for _, c := range pods {
		if c.Pod.EndsBy.IsZero() {
			continue
		}
		if d.since == nil {
			d.since = map[string]time.Time{}
		}
		since, known := before[c.Pod.UID]
		if !known {
			since = now
		}
		d.since[c.Pod.UID] = since
	}
}

// counts is until when a deleted pod is counted on, for a threshold that has been met
// since a time.
func (d *deletions) counts(pod *signals.Pod, met time.Time) (until time.Time) {
	since := d.since[pod.UID]
	until = since.Add(min(maxPending, max(pod.EndsBy.Sub(since), 0)))
	if end := met.Add(maxWait); end.Before(until) {
		return end
	}
	return until
}

// pending looks for pods that somebody has deleted already: what they hold is on
// its way, and no second one has to go for it. As long as those that are counted on
// hold what is missing, they are waited for, whatever others have had their time.
// Otherwise, or where there is no time to wait, the one that holds most ends at once.
func (c *Checker) pending(o *Outcome, killed tries) (first *signals.Candidate, reason string) {
	target, now := o.Verdict.Target, o.Snapshot.At
	missing := target.Missing(c.observed(o, target.Signal))
	c.deleted.note(o.Candidates, now)
	var expected, counted, most signals.Amount
	end := now.Add(maxPending)
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if r.Pod.EndsBy.IsZero() || r.Key.Usage <= 0 || killed[r.Pod.UID].n > 0 {
			continue
		}
		until := c.deleted.counts(r.Pod, c.Machine.MetSince(&o.Verdict))
		overdue, protected := !now.Before(until), r.Pod.Protection != signals.Unprotected
		if overdue && (protected || !target.Hard()) {
			continue // counted on no longer, and not to be ended
		}
		expected = expected.Plus(r.Key.Usage)
		if !overdue {
			counted = counted.Plus(r.Key.Usage)
			if until.Before(end) {
				end = until
			}
		}
		if !protected && r.Key.Usage > most {
			first, most = &r.Candidate, r.Key.Usage
		}
	}
	late := counted <= 0 || counted < missing
	switch {
	case expected <= 0 || expected < missing:
		return nil, ""
	case target.Hard() && (late || c.pressing(o.Snapshot, target)):
		return first, "" // none where all of them are protected: the ranking decides
	}
	if before := c.deleted.until; before.IsZero() || end.Before(before) {
		c.deleted.until = end
	}
	return nil, deletedHold
}

// pressing reports whether there is no time to wait for what is on its way.
func (c *Checker) pressing(s *signals.Snapshot, t *eviction.Threshold) bool {
	return s.Kind == signals.Early || s.Node[t.Signal].Headroom() <= 0 ||
		s.Rates[t.Signal].Within(s.Node[t.Signal].Headroom(), c.Machine.Policy().EarlyEvictionHorizon)
}

// patienceFor is how long the API server may be waited for before a kill: half
// of what memory lasts beyond the kill itself. Memory that does not fall
// leaves the time that an answer takes at worst, memory that is used up none.
func patienceFor(s *signals.Snapshot) time.Duration {
	for sig := range signals.All {
		if o := &s.Node[sig]; sig.OfMemory() && o.Known && o.Headroom() <= 0 {
			return 0 // what is used up does not fall any more
		}
	}
	return max(min(maxPatience, (timeToExhaustion(s)-eviction.KillTime)/2), 0)
}

// timeToExhaustion is how long memory lasts at its present rate, the node's or what pods
// are allowed; for ever if it does not fall.
func timeToExhaustion(s *signals.Snapshot) (lasts time.Duration) {
	lasts = 1<<63 - 1
	for sig := range signals.All {
		if of, falling := s.Rates[sig].TimeToExhaustion(s.Node[sig].Headroom()); falling && sig.OfMemory() {
			lasts = min(lasts, of)
		}
	}
	return lasts
}
