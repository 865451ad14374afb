package limiter

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// An eviction during a hold of futile ones has to last, by what was taken outside
// of pods over quietTime at least.
const (
	quietTime = 10 * time.Second // no more than an agent's period: twice measured is enough
	lastTime  = 10 * time.Minute
)

// quiet is what was seen of a signal at an earlier time within a hold.
type quiet struct {
	since time.Time
	seen  Sight
}

// Lasts reports whether the end of a pod that uses so much would help in spite of a
// hold of futile evictions: what is held outside of pods has grown so little within
// the hold that it would take more than lastTime to take half of it. Without growth
// the hog is a pod, which the hold is not for.
func (r *Limiter) Lasts(of signals.Signal, used signals.Amount, now time.Time, seen *Sight) bool {
	f := &r.relief[of.Definition().Condition]
	q, begun := f.quiet[of]
	if !begun {
		f.watch(of, now, seen)
		return false
	}
	over, taken := now.Sub(q.since), grown(&q.seen, seen)
	if over < quietTime {
		return false
	}
	if taken <= 0 || float64(taken)*lastTime.Seconds() <= float64(used/2)*over.Seconds() {
		return true
	}
	f.watch(of, now, seen)
	return false
}

// watch begins to hold what is seen of a signal later against what is seen now.
func (f *relief) watch(of signals.Signal, now time.Time, seen *Sight) {
	if f.quiet == nil {
		f.quiet = map[signals.Signal]quiet{}
	}
	f.quiet[of] = quiet{now, *seen}
}
