package evictions

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// maxTolerationSeconds is a hundred years. Longer tolerations are unlimited. It is
// well below an overflow of durations in nanoseconds.
const maxTolerationSeconds = 100 * 365 * 24 * 60 * 60

// Deadline returns the time at which the pod has to leave a node with these taints. If it stays,
// ok is false. Taints with effects other than NoExecute are ignored, so that all taints of the
// node can be passed.
//
// Each taint is tolerated for the duration of the first matching toleration, and not at all
// without one, from the time at which both taint and pod existed. A taint that replaced one
// tolerated without limit counts from the swap, since the pod had no timer before. The earliest
// deadline counts. It may be long past.
//
// Deadline costs O(taints × tolerations) and allocates nothing.
func Deadline(p *model.Pod, taints []model.Taint) (at time.Time, ok bool) {
	if p.Finished || p.Deleting {
		return time.Time{}, false
	}
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != model.NoExecute {
			continue
		}
		tolerated, bounded := TolerationTime(p, taint)
		if !bounded {
			continue
		}
		if until := startOf(p, taint, tolerated).Add(tolerated); !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// startOf returns the start of the time for which the pod tolerates the taint. For a pod
// without a matching toleration, the creation of the pod does not count.
func startOf(p *model.Pod, taint *model.Taint, tolerated time.Duration) time.Time {
	since := taint.Added
	if taint.Swapped.After(since) {
		replaced := model.Taint{Key: model.Opposite(taint.Key), Effect: model.NoExecute}
		if _, bounded := TolerationTime(p, &replaced); !bounded {
			since = taint.Swapped
		}
	}
	if tolerated > 0 && since.Before(p.Created) {
		since = p.Created
	}
	return since
}

// TolerationTime returns how long the pod tolerates the taint: by its first matching toleration, or not
// at all without one. If the toleration is unlimited, bounded is false.
func TolerationTime(p *model.Pod, taint *model.Taint) (tolerated time.Duration, bounded bool) {
	for i := range p.Tolerations {
		t := &p.Tolerations[i]
		if !t.Tolerates(taint) {
			continue
		}
		if !t.Bounded || t.Seconds > maxTolerationSeconds {
			return 0, false
		}
		return time.Duration(max(0, t.Seconds)) * time.Second, true
	}
	return 0, true
}
