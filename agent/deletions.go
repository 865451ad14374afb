package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of the wait for deleted pods. Neither one pod with a long grace period nor several in
// sequence keep a hard threshold from being acted for.
const (
	maxDeletionWait = 30 * time.Second // since the deletion of a pod was observed
	maxMetWait      = 20 * time.Second // since the threshold was observed to be met
)

// deletedBlock is why deleted pods block the action for a threshold.
const deletedBlock = "pods that are being deleted hold what is short: each has its grace period, at most 30s"

// deletions are the pods with a deletionTimestamp.
type deletions struct {
	since map[string]time.Time // by UID: first observation of the deletion
	until time.Time            // end of the wait of the last check; zero if there is none
}

// note updates the set of deleted pods.
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

// countsUntil returns until when a deleted pod counts towards the missing amount of a threshold that
// has been met since the given time.
func (d *deletions) countsUntil(pod *signals.Pod, met time.Time) (until time.Time) {
	since := d.since[pod.UID]
	until = since.Add(min(maxDeletionWait, max(pod.EndsBy.Sub(since), 0)))
	if end := met.Add(maxMetWait); end.Before(until) {
		return end
	}
	return until
}

// awaitDeleted returns the reason to wait for deleted pods, or the one of them to evict first, or
// neither. The memory they hold is about to be freed, so that no other pod is evicted for it. As
// long as counted pods hold the missing amount, the check waits for them, even if others are
// overdue. Otherwise, or without time to wait, the one with the largest usage is ended at once.
func (c *Checker) awaitDeleted(o *Outcome, killed tries) (first *signals.Candidate, reason string) {
	target, now := o.Verdict.Target, o.Snapshot.At
	missing := target.Missing(c.observed(o, target.Signal))
	c.Trace.noteDeletions(o, &c.deleted, killed)
	c.deleted.note(o.Candidates, now)
	var expected, counted, largest signals.Amount
	end := now.Add(maxDeletionWait)
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if r.Pod.EndsBy.IsZero() || r.Relief.Amount <= 0 || killed[r.Pod.UID].n > 0 {
			continue
		}
		until := c.deleted.countsUntil(r.Pod, c.Machine.MetSince(&o.Verdict))
		overdue, protected := !now.Before(until), r.Pod.Protection != signals.Unprotected
		if overdue && (protected || !target.Hard()) {
			continue // no longer counted, and not to be ended
		}
		expected = expected.Plus(r.Relief.Amount)
		if !overdue {
			counted = counted.Plus(r.Relief.Amount)
			if until.Before(end) {
				end = until
			}
		}
		if !protected && r.Relief.Amount > largest {
			first, largest = &r.Candidate, r.Relief.Amount
		}
	}
	late := counted <= 0 || counted < missing
	switch {
	case expected <= 0 || expected < missing:
		return nil, ""
	case target.Hard() && (late || c.pressing(o.Snapshot, target)):
		return first, "" // nil if all of them are protected: the ranking decides
	}
	if before := c.deleted.until; before.IsZero() || end.Before(before) {
		c.deleted.until = end
	}
	return nil, deletedBlock
}

// pressing reports whether there is no time to wait for memory that is being freed.
func (c *Checker) pressing(s *signals.Snapshot, t *eviction.Threshold) bool {
	return s.Kind == signals.Early || s.Node[t.Signal].Headroom() <= 0 ||
		s.Rates[t.Signal].Within(s.Node[t.Signal].Headroom(), c.Machine.Policy().EarlyEvictionHorizon)
}
