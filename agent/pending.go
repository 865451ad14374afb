package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/signal"
)

// longestPending is how long what deleted pods hold is counted on at most: none of
// them keeps a hard threshold from being acted for by a long grace period.
const longestPending = 30 * time.Second

// deletions are the pods that somebody has deleted, as seen under pressure.
type deletions struct {
	since map[string]time.Time // by UID: when the deletion was seen first
	begun time.Time            // when the present wait for them began, zero without one
	last  time.Time            // when it went on
}

// note takes over which of the pods are deleted.
func (d *deletions) note(ranked []ranking.Ranked, now time.Time) {
	before := d.since
	d.since = map[string]time.Time{}
	for i := range ranked {
		if pod := ranked[i].Pod; !pod.EndsBy.IsZero() {
			d.since[pod.UID] = now
			if since, known := before[pod.UID]; known {
				d.since[pod.UID] = since
			}
		}
	}
}

// late reports whether a deleted pod has had its time: its grace period, and no more
// than longestPending.
func (d *deletions) late(pod *signal.Pod, now time.Time) bool {
	since := d.since[pod.UID]
	return now.Sub(since) >= min(longestPending, max(pod.EndsBy.Sub(since), 0))
}

// overdue reports whether deleted pods, one after the other, have been waited for as
// long as one of them may be.
func (d *deletions) overdue(now time.Time, period time.Duration) bool {
	if d.begun.IsZero() || now.Sub(d.last) > 2*period {
		d.begun = now
	}
	d.last = now
	return now.Sub(d.begun) >= longestPending
}

// pending looks for pods that somebody has deleted already: what they hold is on
// its way, and no second one has to go for it. If together they hold what is
// missing, it is waited for. The one that holds most ends at once where there is no
// time to wait, or where a pod has had the time for which it is counted on.
func (a *Agent) pending(o *Outcome) (first *signal.Candidate, reason string) {
	target, now := o.Verdict.Target, o.Snapshot.At
	seen := a.cycle.observed(o, target.Signal)
	a.deleted.note(o.Ranking, now)
	var expected, most signal.Amount
	late := false
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if r.Pod.EndsBy.IsZero() || r.Key.Usage <= 0 || a.kills[r.Pod.UID].n > 0 {
			continue
		}
		overdue, protected := a.deleted.late(r.Pod, now), r.Pod.Protection != signal.Unprotected
		if overdue && (protected || !target.Hard()) {
			continue // counted on no longer, and not to be ended
		}
		expected = expected.Plus(r.Key.Usage)
		if !protected && (overdue && !late || overdue == late && r.Key.Usage > most) {
			first, most, late = &r.Candidate, r.Key.Usage, overdue
		}
	}
	if expected <= 0 || expected < target.Missing(seen) {
		a.deleted.begun = time.Time{}
		return nil, ""
	}
	if overdue := a.deleted.overdue(now, a.settings.Period); target.Hard() && (late || overdue || a.pressing(o.Snapshot, target)) {
		return first, "" // none where all of them are protected: the ranking decides
	}
	return nil, deletedHold
}

// deletedHold is why deleted pods keep a threshold from being acted for.
const deletedHold = "pods that are being deleted hold what is missing; each is counted on for its grace period, and 30s at most"

// pressing reports whether there is no time to wait for what is on its way.
func (a *Agent) pressing(s *signal.Snapshot, t *eviction.Threshold) bool {
	return s.Kind == signal.Extra || s.Node[t.Signal].Left() <= 0 ||
		s.Fell[t.Signal].Within(s.Node[t.Signal].Left(), a.machine.Policy().ReactionReserve)
}

// patienceFor is how long the API server may be waited for before a kill: half
// of what memory lasts beyond the kill itself. Memory that does not fall
// leaves the time that an answer takes at worst, memory that is used up none.
func (a *Agent) patienceFor(s *signal.Snapshot) time.Duration {
	for sig := range signal.All {
		if o := &s.Node[sig]; sig.OfMemory() && o.Known && o.Left() <= 0 {
			return 0 // what is used up does not fall any more
		}
	}
	return max(min(longestPatience, (memoryLasts(s)-eviction.KillTime)/2), 0)
}

// memoryLasts is how long memory lasts at its present rate, the node's or what pods
// are allowed; for ever if it does not fall.
func memoryLasts(s *signal.Snapshot) (lasts time.Duration) {
	lasts = 1<<63 - 1
	for sig := range signal.All {
		if of, falling := s.Fell[sig].Lasts(s.Node[sig].Left()); falling && sig.OfMemory() {
			lasts = min(lasts, of)
		}
	}
	return lasts
}
