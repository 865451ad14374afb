package agent

import (
	"context"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/signal"
)

// A relief is room being made on disks, beside the loop: the runtime may take
// its time, and memory is looked at meanwhile.
type relief struct {
	what     []signal.Reclaimer
	finished chan []signal.Reclaimer // what ran
	ran      []signal.Reclaimer
	done     bool
	told     bool
	cancel   context.CancelFunc
	stale    bool // begun before the agent was armed, or disarmed
	ended    time.Time
}

// Reclaim implements Reclaimer: it begins a relief, and says what came of it in
// the look that follows its end. A disarmed agent collects nothing, but pods have
// to be measured to be ranked.
func (a *Agent) Reclaim(ctx context.Context, v *eviction.Verdict) (ran []signal.Reclaimer, done bool) {
	if a.collector == nil {
		return nil, true
	}
	if r := a.relief; r != nil {
		if r.done {
			a.relief = nil
		}
		return r.ran, r.done
	}
	what := a.collectable(v)
	bounded, cancel := context.WithCancel(ctx)
	r := &relief{what: what, finished: make(chan []signal.Reclaimer, 1), cancel: cancel}
	a.relief = r
	machine, verdict := a.machine, *v
	go func() {
		defer cancel()
		r.finished <- a.collector.Collect(bounded, what, func(now *signal.Observations) bool {
			return !machine.StillMetOf(&verdict, now, signal.DiskPressure)
		})
		a.notifier.Wake()
	}()
	return nil, false
}

// relieved is where a relief under way reports its end; nil if there is none.
func (a *Agent) relieved() <-chan []signal.Reclaimer {
	if a.relief == nil || a.relief.done {
		return nil
	}
	return a.relief.finished
}

// endRelief notes what ran. Whether it was enough is looked at now, and not
// only when the next look is due.
func (a *Agent) endRelief(ran []signal.Reclaimer) {
	a.relief.ran, a.relief.done, a.relief.ended = ran, true, time.Now()
	if a.relief.stale {
		a.relief = nil
	}
	a.nextRegular = time.Now()
}

// reliefAge is how old the result of a relief may become.
const reliefAge = 30 * time.Second

// forgetRelief drops the result of a relief that no look of its threshold has
// asked for: what was measured then is old by the time of the next one. Where a pod
// was evicted for another threshold, the result is for the next look.
func (a *Agent) forgetRelief(o *Outcome) {
	if o.Snapshot.Kind != signal.Regular || a.relief == nil || !a.relief.done {
		return
	}
	if o.Evicted == nil || o.Snapshot.At.Sub(a.relief.ended) >= reliefAge {
		a.relief = nil
	}
}
