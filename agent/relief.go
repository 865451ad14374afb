package agent

import (
	"context"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// A relief is room being made on disks, beside the loop: the runtime may take
// its time, and memory is looked at meanwhile.
type relief struct {
	met      signals.Set              // the signals it is for
	what     []signals.Reclaimer      // what they need; a disarmed agent collects nothing of it
	finished chan []signals.Reclaimer // what ran
	ran      []signals.Reclaimer
	done     bool
	served   bool                // a threshold of the present look has made use of it
	short    bool                // it was not for all that another one of that look needs
	wanted   []signals.Reclaimer // which is this
	told     bool
	cancel   context.CancelFunc
	stale    bool // begun before the agent was armed, or disarmed
	ended    time.Time
}

// Reclaim implements Reclaimer: it begins a relief, and says what came of it in
// the look that follows its end, to each threshold that it was for: one that is held
// must not use it up. A threshold that needs more waits for the next relief.
func (a *Agent) Reclaim(ctx context.Context, v *eviction.Verdict) (ran []signals.Reclaimer, done bool) {
	if a.collector == nil {
		return nil, true
	}
	r := a.relief
	switch {
	case r == nil:
		a.beginRelief(ctx, v, v.Reclaim)
	case !r.done:
	case r.isFor(v):
		r.served = true
		return r.ran, true
	default:
		r.short, r.wanted = true, merged(r.wanted, v.Reclaim)
	}
	return nil, false
}

// beginRelief begins a relief for all disk thresholds of a look. A disarmed agent
// collects nothing, but pods have to be measured to be ranked.
func (a *Agent) beginRelief(ctx context.Context, v *eviction.Verdict, what []signals.Reclaimer) {
	collect := a.collectable(what)
	bounded, cancel := context.WithCancel(ctx)
	r := &relief{met: v.Met, what: what, finished: make(chan []signals.Reclaimer, 1), cancel: cancel}
	a.relief = r
	machine, verdict := a.machine, *v
	go func() {
		defer cancel()
		r.finished <- a.collector.Collect(bounded, collect, func(now *signals.Observations) bool {
			return !machine.StillMetOf(&verdict, now, signals.DiskPressure)
		})
		a.notifier.Wake()
	}()
}

// isFor reports whether all that the verdict's target needs was collected: it was met
// already, so that collecting has not ended before there was enough for it, too.
func (r *relief) isFor(v *eviction.Verdict) bool {
	return r.met.Has(v.Target.Signal) &&
		!slices.ContainsFunc(v.Reclaim, func(k signals.Reclaimer) bool { return !slices.Contains(r.what, k) })
}

// merged are the reclaimers of both, in the order in which they run.
func merged(a, b []signals.Reclaimer) []signals.Reclaimer {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// relieved is where a relief under way reports its end; nil if there is none.
func (a *Agent) relieved() <-chan []signals.Reclaimer {
	if a.relief == nil || a.relief.done {
		return nil
	}
	return a.relief.finished
}

// endRelief notes what ran. Whether it was enough is looked at now, and not
// only when the next look is due.
func (a *Agent) endRelief(ran []signals.Reclaimer) {
	a.relief.ran, a.relief.done, a.relief.ended = ran, true, time.Now()
	if a.relief.stale {
		a.relief = nil
	}
	a.nextRegular = time.Now()
}

// reliefAge is how old the result of a relief may become.
const reliefAge = 30 * time.Second

// forgetRelief ends the use of a relief with the look that has asked for its result.
// If that was not for all that other thresholds need, the next one is, and for those
// that were served: none of them comes before another again and again.
//
// A result that no look of its threshold has asked for is dropped, too: what was
// measured then is old by the time of the next one. Where a pod was evicted for another
// threshold, the result is for the next look.
func (a *Agent) forgetRelief(ctx context.Context, o *Outcome) {
	r := a.relief
	if r == nil || !r.done {
		return
	}
	ofDisk := o.Verdict.Target != nil && o.Verdict.Target.Signal.Definition().Condition == signals.DiskPressure
	switch {
	case r.short && (!ofDisk || o.idle()):
		what := r.wanted
		if r.served {
			what = merged(what, r.what)
		}
		a.beginRelief(ctx, &o.Verdict, what)
	case r.short, r.served:
		a.relief = nil
	case o.Snapshot.Kind != signals.Regular:
	case o.Evicted == nil, o.Snapshot.At.Sub(r.ended) >= reliefAge:
		a.relief = nil
	}
}
