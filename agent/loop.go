package agent

import (
	"context"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/signal"
)

// A Cycle looks at the node once and does what follows: observe, evaluate and
// decide, reclaim, rank, evict at most one pod. It is the one place where these
// steps stand in their order.
type Cycle struct {
	Machine   *eviction.Machine
	Observer  Observer
	Pods      Pods
	Reclaimer Reclaimer
	Killer    Killer
	// StandBy, if set, may hold an action back and says why; empty goes ahead.
	StandBy func(*signal.Snapshot, eviction.Verdict) (reason string)
}

// Look runs the cycle on a snapshot whose time, kind and rates are set; the
// node's observations are filled in.
func (c *Cycle) Look(ctx context.Context, s *signal.Snapshot) Outcome {
	c.Observer.Observe(&s.Node, c.Machine.Observes(s.Kind))
	return c.Decide(ctx, s)
}

// Decide runs the cycle from the snapshot's observations on.
func (c *Cycle) Decide(ctx context.Context, s *signal.Snapshot) Outcome {
	o := Outcome{Snapshot: s, Verdict: c.Machine.Look(s)}
	if o.Verdict.CheckLimits {
		if o.EndedByLimit = c.enforceLimits(ctx, &o); o.EndedByLimit {
			return o
		}
	}
	if o.Verdict.Target == nil {
		return o
	}
	if c.StandBy != nil {
		if o.StoodBy = c.StandBy(s, o.Verdict); o.StoodBy != "" {
			return o
		}
	}
	if len(o.Verdict.Reclaim) > 0 {
		o.Reclaimed = c.Reclaimer.Reclaim(ctx, o.Verdict.Reclaim)
		if o.Recovered = c.recovered(s, &o.Verdict); o.Recovered {
			return o
		}
	}
	target := o.Verdict.Target
	o.Candidates = c.Pods.Measure(ctx)
	o.Ranking = ranking.Rank(o.Candidates, target.Signal, target.Signal.In(c.Machine.Policy().Layout).Measure)
	for i := range o.Ranking {
		r := &o.Ranking[i]
		if r.Pod.Protection != signal.Unprotected || o.hasFailed(r.Pod) {
			continue
		}
		if o.Recovered = c.recovered(s, &o.Verdict); o.Recovered {
			return o
		}
		if c.evict(ctx, &o, c.Machine.Policy().Evict(target, &s.Node[target.Signal], r.Candidate)) {
			return o
		}
	}
	return o
}

// recovered observes once more, before what can not be undone.
func (c *Cycle) recovered(s *signal.Snapshot, v *eviction.Verdict) bool {
	var now signal.Observations
	c.Observer.Observe(&now, c.Machine.Observes(s.Kind))
	return !c.Machine.StillMet(v, &now)
}

// enforceLimits evicts the first pod above a local-storage limit.
func (c *Cycle) enforceLimits(ctx context.Context, o *Outcome) (evicted bool) {
	pods := c.Pods.Measure(ctx)
	for _, e := range c.Machine.Policy().Violations(pods) {
		if c.evict(ctx, o, e) {
			return true
		}
	}
	return false
}

func (c *Cycle) evict(ctx context.Context, o *Outcome, e eviction.Eviction) bool {
	if err := c.Killer.Kill(ctx, &e); err != nil {
		o.Failed = append(o.Failed, Failure{e.Pod, err})
		return false
	}
	o.Evicted = &e
	return true
}

// An Outcome is what one look led to.
type Outcome struct {
	Snapshot *signal.Snapshot
	Verdict  eviction.Verdict
	// EndedByLimit: a pod above a local-storage limit was evicted, and the
	// target was not acted for.
	EndedByLimit bool
	StoodBy      string // why the target was not acted for, empty if it was
	Reclaimed    []signal.Reclaimer
	Recovered    bool // found on a second look, before a pod was evicted
	Candidates   []signal.Candidate
	Ranking      []ranking.Ranked
	Evicted      *eviction.Eviction
	Failed       []Failure
}

// Acted reports whether anything was done or tried.
func (o *Outcome) Acted() bool {
	return o.Evicted != nil || len(o.Failed) > 0 || len(o.Reclaimed) > 0
}

func (o *Outcome) hasFailed(p *signal.Pod) bool {
	for _, f := range o.Failed {
		if f.Pod == p || f.Pod.UID == p.UID {
			return true
		}
	}
	return false
}

// A Failure is a pod that could not be evicted.
type Failure struct {
	Pod *signal.Pod
	Err error
}
