package limiter

import (
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// An eviction despite a limit for ineffective ones must have a lasting effect, by the growth
// outside of pods over at least quietTime.
const (
	quietTime = 10 * time.Second // at most the agent's period: two measurements are enough
	lastTime  = 10 * time.Minute
)

// quiet is an earlier observation of a signal within a limit.
type quiet struct {
	since time.Time
	seen  Observation
}

// HasLastingEffect reports whether evicting a pod with the given usage would help in spite of a limit for
// ineffective evictions. It does if growth outside of pods within the limit is so slow that half
// of the usage would last longer than lastTime. Without such growth the hog is a pod, which the
// limit is not for.
func (r *Limiter) HasLastingEffect(of signals.Signal, used signals.Amount, now time.Time, seen *Observation) bool {
	f := &r.records[of.Definition().Condition]
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

// watch sets the base for later observations of a signal.
func (f *record) watch(of signals.Signal, now time.Time, seen *Observation) {
	if f.quiet == nil {
		f.quiet = map[signals.Signal]quiet{}
	}
	f.quiet[of] = quiet{now, *seen}
}
