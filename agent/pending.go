package agent

import (
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// pending looks for pods that somebody has deleted already: what they hold is on
// its way, and no second one has to go for it. If together they hold what is
// missing, it is waited for; if there is no time to wait, the one that holds
// most ends now instead of within its grace period. A pod that has outlived
// its grace period by far is counted on no longer.
func (a *Agent) pending(o *Outcome) (first *signal.Candidate, reason string) {
	target := o.Verdict.Target
	seen := &o.Snapshot.Node[target.Signal]
	missing := target.Missing(seen)
	var expected, most signal.Amount
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if r.Pod.EndsBy.IsZero() || o.Snapshot.At.After(r.Pod.EndsBy.Add(releaseWait)) {
			continue
		}
		expected = expected.Plus(r.Key.Usage)
		if r.Key.Usage > most && r.Pod.Protection == signal.Unprotected {
			first, most = &r.Candidate, r.Key.Usage
		}
	}
	switch {
	case expected <= 0 || expected < missing:
		return nil, ""
	case target.Hard() && a.pressing(o.Snapshot, target):
		return first, ""
	}
	return nil, "pods that are being deleted hold what is missing"
}

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
