package restraint

import (
	"time"

	"plimsoll.dev/plimsoll/signal"
)

// An eviction during a hold of futile ones has to last, by what was taken outside
// of pods over quietTime at least.
const (
	quietTime = 15 * time.Second
	lastTime  = 10 * time.Minute
)

// quiet is what was seen at an earlier time within a hold.
type quiet struct {
	of    signal.Signal
	since time.Time
	seen  Sight
}

// Lasts reports whether the end of a pod that uses so much would help in spite of a
// hold of futile evictions: what is held outside of pods has grown so little within
// the hold that it would take more than lastTime to take half of it. Without growth
// the hog is a pod, which the hold is not for.
func (r *Restraint) Lasts(of signal.Signal, used signal.Amount, now time.Time, seen *Sight) bool {
	q := &r.relief[of.Definition().Condition].quiet
	if q.since.IsZero() || q.of != of {
		*q = quiet{of, now, *seen}
		return false
	}
	over, taken := now.Sub(q.since), grown(&q.seen, seen)
	if over < quietTime {
		return false
	}
	if taken <= 0 || float64(taken)*lastTime.Seconds() <= float64(used/2)*over.Seconds() {
		return true
	}
	*q = quiet{of, now, *seen}
	return false
}
