package core

import (
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/lifecycle/zones"
)

// Census is the number of objects and states at one moment.
type Census struct {
	Pods        int
	EvictedPods int  // of them: evicted by agents, and not deleted yet
	Leads       bool // else all that follows is empty
	Timers      int  // pods with a scheduled eviction

	SuspectedNodes int // silent nodes without a confirmed loss
	BreakerOpen    bool
	BudgetExceeded bool
	Zones          []ZoneCensus // in the order of places
}

// ZoneCensus counts the nodes of a zone that its state depends on.
type ZoneCensus struct {
	Place         model.Place
	State         zones.State
	Rate          float64 // nodes per second
	Size, Unready int
	Waiting       int // in the queue
}

// Census counts. It visits the nodes that are affected or silent.
func (f *Fleet) Census() Census {
	c := Census{Pods: len(f.pods), EvictedPods: f.evictedPods.Len(), Leads: f.leading}
	if !f.leading {
		return c
	}
	c.Timers, c.BreakerOpen, c.BudgetExceeded = f.timers.Len(), f.budgets.breaker, f.budgets.exceeded
	for _, node := range f.silentNodes {
		if !node.health.lost() {
			c.SuspectedNodes++
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
