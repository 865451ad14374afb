package agent

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// garbage runs the collection of dead containers and unused images beside the loop, since the
// runtime may be slow and memory checks must go on.
type garbage struct {
	collector Collector // nil: nothing to collect and nothing to wait for
	run       *collection
}

// collection is a collection in flight, or one with a result still in use.
type collection struct {
	met      signals.Set            // the signals to free disk space for
	what     []signals.Garbage      // the required kinds; a disarmed agent collects none of them
	results  chan []signals.Garbage // receives the kinds that ran
	ran      []signals.Garbage
	done     bool
	reported bool
	cancel   context.CancelFunc
	stale    bool // begun before the arming state changed
	ended    time.Time
}

// of returns the state of the collection for the verdict's target: whether it has to begin, what
// ran, and whether it is done. The result is for each threshold of the collection: a blocked one
// must not use it up. A threshold that needs more waits for the next collection.
func (g *garbage) of(v *eviction.Verdict) (begin bool, ran []signals.Garbage, done bool) {
	switch {
	case g == nil:
		return true, nil, false
	case g.collector == nil:
		return false, nil, true
	case g.run == nil:
		return true, nil, false
	case g.run.done && g.run.isFor(v):
		return false, g.run.ran, true
	}
	return false, nil, false
}

// beginGarbage begins a collection for all disk thresholds of a check. A disarmed agent collects
// nothing, but has pods measured for the ranking.
func (a *Agent) beginGarbage(ctx context.Context, v *eviction.Verdict, what []signals.Garbage) {
	collect := a.collectable(what)
	bounded, cancel := context.WithCancel(ctx)
	r := &collection{met: v.GracePassed, what: what, results: make(chan []signals.Garbage, 1), cancel: cancel}
	a.garbage.run = r
	machine, verdict := a.checker.Machine, *v
	go func() {
		defer cancel()
		r.results <- a.garbage.collector.Collect(bounded, collect, func(now *signals.Observations) bool {
			return !machine.StillMetOf(&verdict, now, signals.DiskPressure)
		})
		a.notifier.Wake()
	}()
}

// isFor reports whether the collection covered all that the verdict's target needs. The target
// must have been met at its start: otherwise the collection may have ended before there was
// enough for it.
func (r *collection) isFor(v *eviction.Verdict) bool {
	return r.met.Has(v.Target.Signal) &&
		!slices.ContainsFunc(v.Garbage, func(k signals.Garbage) bool { return !slices.Contains(r.what, k) })
}

// merged returns the kinds of garbage of both lists, in the order of their collection.
func merged(a, b []signals.Garbage) []signals.Garbage {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// garbageResults returns the channel for the result of the collection in flight, or nil.
func (a *Agent) garbageResults() <-chan []signals.Garbage {
	if r := a.garbage.run; r != nil && !r.done {
		return r.results
	}
	return nil
}

// applyGarbageResult stores the result. A check is due at once, and not only at the next period.
func (a *Agent) applyGarbageResult(ran []signals.Garbage) {
	r := a.garbage.run
	r.ran, r.done, r.ended = ran, true, time.Now()
	if r.stale {
		a.garbage.run = nil
	}
	a.nextPeriodic = time.Now()
}

// collectionAge is the maximum age of a result.
const collectionAge = 30 * time.Second

// concludeGarbage ends the use of a result with the check that requested it. If other thresholds
// need more than it covers, it begins the next collection, for these and for those already served.
// No threshold can come before another one repeatedly.
//
// A result that no check of its threshold requested is dropped, since its measurements are old by
// the time of the next one. If a pod was evicted for another threshold, the result is kept for
// the next check.
func (a *Agent) concludeGarbage(ctx context.Context, o *Outcome) {
	r := a.garbage.run
	if r == nil || !r.done {
		return
	}
	served, short, wanted := r.use(o)
	ofDisk := o.Verdict.Target != nil && o.Verdict.Target.Signal.Definition().Condition == signals.DiskPressure
	switch {
	case short && (!ofDisk || o.idle()):
		if served {
			wanted = merged(wanted, r.what)
		}
		a.beginGarbage(ctx, &o.Verdict, wanted)
	case short, served:
		a.garbage.run = nil
	case o.Snapshot.Kind != signals.Periodic:
	case o.Evicted == nil, o.Snapshot.At.Sub(r.ended) >= collectionAge:
		a.garbage.run = nil
	}
}

// use returns how the thresholds of a check used the result: whether it served one of them, and
// whether another one wanted more.
func (r *collection) use(o *Outcome) (served, short bool, wanted []signals.Garbage) {
	note := func(o *Outcome) {
		switch {
		case !o.garbageAsked:
		case r.isFor(&o.Verdict):
			served = true
		default:
			short, wanted = true, merged(wanted, o.Verdict.Garbage)
		}
	}
	note(o)
	for i := range o.Passed {
		note(&o.Passed[i])
	}
	return served, short, wanted
}
