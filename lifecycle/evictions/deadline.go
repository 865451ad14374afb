package evictions

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// longest is the bound in seconds, a hundred years, beyond which a toleration is
// one for ever; well before durations of nanoseconds overflow.
const longest = 100 * 365 * 24 * 60 * 60

// Deadline is when the pod has to leave a node with these taints; ok is false if
// it stays. Taints of other effects than NoExecute count for nothing, so that all
// taints of the node can be handed over.
//
// Each taint is borne as long as the first toleration says that is for it, and
// not at all without one, counted from when both taint and pod were there. The
// first of these moments counts. It may be long past. O(taints × tolerations),
// allocates nothing.
func Deadline(p *facts.Pod, taints []facts.Taint) (at time.Time, ok bool) {
	if p.Finished || p.Deleting {
		return time.Time{}, false
	}
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != facts.NoExecute {
			continue
		}
		borne, bounded := patience(p.Tolerations, taint)
		if !bounded {
			continue
		}
		since := taint.Added
		if since.Before(p.Created) {
			since = p.Created
		}
		if until := since.Add(borne); !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// patience is how long the taint is borne; bounded is false for ever.
func patience(tolerations []facts.Toleration, taint *facts.Taint) (borne time.Duration, bounded bool) {
	for i := range tolerations {
		t := &tolerations[i]
		if !t.Tolerates(taint) {
			continue
		}
		if !t.Bounded || t.Seconds > longest {
			return 0, false
		}
		return time.Duration(max(0, t.Seconds)) * time.Second, true
	}
	return 0, true
}
