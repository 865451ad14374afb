package agent

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// garbage is the collection of dead containers and unused images, beside the loop: the
// runtime may take its time, and memory is looked at meanwhile.
type garbage struct {
	collector Collector // nil: there is none, and nothing to wait for
	run       *collection
}

// A collection is under way, or its result is not used up yet.
type collection struct {
	met      signals.Set            // the signals it is for
	what     []signals.Garbage      // what they need; a disarmed agent collects nothing of it
	finished chan []signals.Garbage // what ran
	ran      []signals.Garbage
	done     bool
	told     bool
	cancel   context.CancelFunc
	stale    bool // begun before the agent was armed, or disarmed
	ended    time.Time
}

// of returns what came of collecting for the verdict's target: whether it has to begin,
// what ran, and whether it is done. The result is for each threshold that it was for:
// one that is held must not use it up. A threshold that needs more waits for the next
// collection.
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

// beginGarbage begins to collect for all disk thresholds of a look. A disarmed agent
// collects nothing, but pods have to be measured to be ranked.
func (a *Agent) beginGarbage(ctx context.Context, v *eviction.Verdict, what []signals.Garbage) {
	collect := a.collectable(what)
	bounded, cancel := context.WithCancel(ctx)
	r := &collection{met: v.Met, what: what, finished: make(chan []signals.Garbage, 1), cancel: cancel}
	a.garbage.run = r
	machine, verdict := a.machine, *v
	go func() {
		defer cancel()
		r.finished <- a.garbage.collector.Collect(bounded, collect, func(now *signals.Observations) bool {
			return !machine.StillMetOf(&verdict, now, signals.DiskPressure)
		})
		a.notifier.Wake()
	}()
}

// isFor reports whether all that the verdict's target needs was collected: it was met
// already, so that collecting has not ended before there was enough for it, too.
func (r *collection) isFor(v *eviction.Verdict) bool {
	return r.met.Has(v.Target.Signal) &&
		!slices.ContainsFunc(v.Garbage, func(k signals.Garbage) bool { return !slices.Contains(r.what, k) })
}

// merged are the reclaimers of both, in the order in which they run.
func merged(a, b []signals.Garbage) []signals.Garbage {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// collected is where a collection under way reports its end; nil if there is none.
func (a *Agent) collected() <-chan []signals.Garbage {
	if r := a.garbage.run; r != nil && !r.done {
		return r.finished
	}
	return nil
}

// endGarbage notes what ran. Whether it was enough is looked at now, and not
// only when the next look is due.
func (a *Agent) endGarbage(ran []signals.Garbage) {
	r := a.garbage.run
	r.ran, r.done, r.ended = ran, true, time.Now()
	if r.stale {
		a.garbage.run = nil
	}
	a.nextRegular = time.Now()
}

// collectionAge is how old the result of a collection may become.
const collectionAge = 30 * time.Second

// forgetGarbage ends the use of a result with the look that has asked for it. If that
// was not for all that other thresholds need, the next collection is, and for those
// that were served: none of them comes before another again and again.
//
// A result that no look of its threshold has asked for is dropped, too: what was
// measured then is old by the time of the next one. Where a pod was evicted for another
// threshold, the result is for the next look.
func (a *Agent) forgetGarbage(ctx context.Context, o *Outcome) {
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

// use returns what the thresholds of a check have made of the result: whether it has
// served one of them, and whether it was short of what another one wanted.
func (r *collection) use(o *Outcome) (served, short bool, wanted []signals.Garbage) {
	note := func(o *Outcome) {
		switch {
		case !o.asked:
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
