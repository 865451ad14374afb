package core

import (
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// A Census counts what a fleet holds at one moment.
type Census struct {
	Pods   int
	Kept   int  // of them: evicted by agents, and kept for the time being
	Leads  bool // this fleet decides; else all that follows is empty
	Timers int  // pods whose eviction has a moment

	Suspects       int // silent nodes that are not believed to be dead yet
	BreakerOpen    bool
	BudgetExceeded bool
	Zones          []ZoneCensus // in the order of places
}

// A ZoneCensus counts the nodes of a zone, those that count for its state.
type ZoneCensus struct {
	Place         model.Place
	State         zones.State
	Rate          float64 // nodes a second
	Size, Unready int
	Waiting       int // for their turn to be given up
}

// Census counts. It walks over the nodes that something is the matter with.
func (f *Fleet) Census() Census {
	c := Census{Pods: len(f.pods), Kept: f.evictedPods.Len(), Leads: f.leading}
	if !f.leading {
		return c
	}
	c.Timers, c.BreakerOpen, c.BudgetExceeded = f.timers.Len(), f.budgets.breaker, f.budgets.exceeded
	for _, node := range f.silentNodes {
		if !node.health.lost() {
			c.Suspects++
		}
	}
	waiting := map[model.Place]int{}
	for _, node := range f.affected {
		if node.queue == stateQueued {
			waiting[node.place()]++
		}
	}
	f.zones.Each(func(p model.Place, s zones.State, rate float64, size, unready int) {
		c.Zones = append(c.Zones, ZoneCensus{p, s, rate, size, unready, waiting[p]})
	})
	return c
}
