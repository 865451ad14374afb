package evictions

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// longest is the bound in seconds, a hundred years, beyond which a toleration is
// one for ever; well before durations of nanoseconds overflow.
const longest = 100 * 365 * 24 * 60 * 60

// Deadline is when the pod has to leave a node with these taints; ok is false if
// it stays. Taints of other effects than NoExecute count for nothing, so that all
// taints of the node can be handed over.
//
// Each taint is borne as long as the first toleration says that is for it, and
// not at all without one, counted from when both taint and pod were there. A taint
// that replaced one which the pod tolerates without limit counts from the swap: the
// pod had no timer before. The first of these moments counts. It may be long past.
// O(taints × tolerations), allocates nothing.
func Deadline(p *model.Pod, taints []model.Taint) (at time.Time, ok bool) {
	if p.Finished || p.Deleting {
		return time.Time{}, false
	}
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != model.NoExecute {
			continue
		}
		borne, bounded := Patience(p, taint)
		if !bounded {
			continue
		}
		if until := beginning(p, taint, borne).Add(borne); !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// beginning is when the time begins for which the pod tolerates the taint. A pod
// that does not tolerate it has no time that could begin with its own creation.
func beginning(p *model.Pod, taint *model.Taint, borne time.Duration) time.Time {
	since := taint.Added
	if taint.Swapped.After(since) {
		replaced := model.Taint{Key: model.Opposite(taint.Key), Effect: model.NoExecute}
		if _, bounded := Patience(p, &replaced); !bounded {
			since = taint.Swapped
		}
	}
	if borne > 0 && since.Before(p.Created) {
		since = p.Created
	}
	return since
}

// Patience is how long the pod tolerates the taint: by its first toleration for it,
// or not at all without one. bounded is false if it does so for ever.
func Patience(p *model.Pod, taint *model.Taint) (borne time.Duration, bounded bool) {
	for i := range p.Tolerations {
		t := &p.Tolerations[i]
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
