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
	patience := longestPatience
	for sig := range signal.All {
		if o := &s.Node[sig]; sig.OfMemory() && o.Known && o.Left() <= 0 {
			return 0 // what is used up does not fall any more
		}
		if lasts, falling := s.Fell[sig].Lasts(s.Node[sig].Left()); falling && sig.OfMemory() {
			patience = min(patience, (lasts-eviction.KillTime)/2)
		}
	}
	return max(patience, 0)
}
