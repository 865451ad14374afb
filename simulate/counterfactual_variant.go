package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// variant is the node with the other configuration, for one of the bounds.
type variant struct {
	of       *comparer
	config   *config.Agent
	policies map[policyKey]*eviction.Policy
	checker  *agent.Checker
	key      policyKey
	grows    bool
	gone     map[string]time.Time // when it has evicted pods, by UID
	course   *Course

	now  time.Time
	node signals.Observations
}

func newVariant(x *comparer, other *config.Agent, course *Course) *variant {
	return &variant{of: x, config: other, policies: map[policyKey]*eviction.Policy{}, gone: map[string]time.Time{}, course: course}
}

// check makes one check by the recorded observation, adjusted for the pods that have or have not
// ended.
func (v *variant) check(c *recording.Check) error {
	if err := v.adopt(policyKey{c.Layout, c.StorageLimits && v.config.LocalStorageCapacityIsolation}, &c.Snapshot.Node); err != nil {
		return err
	}
	s := c.Snapshot
	s.NeedsConfirmation = false
	v.now = s.At
	v.adjust(&s)
	v.node = s.Node
	ctx, constraints := context.Background(), &agent.Constraints{}
	o := v.checker.Begin(&s)
	for plan := v.checker.Next(ctx, constraints); plan.Action != agent.Wait; plan = v.checker.Next(ctx, constraints) {
		v.checker.Apply(plan, agent.PlanResult{Done: true})
	}
	v.checker.Spend(o)
	v.course.add(c, o.Verdict.Conditions, &s.Node[signals.MemoryAvailable])
	if o.KubeletsPod != nil && !c.Brief { // of a brief check it is not recorded
		v.course.Spared++
	}
	if e := o.Evicted; e != nil {
		v.gone[e.Pod.UID] = v.now
		v.course.Evictions = append(v.course.Evictions, CourseEviction{c.At(), e.Pod.Key(), e.Cause, s.Kind == signals.Early})
	}
	return nil
}

func (v *variant) adopt(key policyKey, node *signals.Observations) error {
	if v.checker != nil && v.key == key {
		return nil
	}
	if v.policies[key] == nil {
		c := *v.config
		c.LocalStorageCapacityIsolation = key.limits
		p, err := c.Policy(key.layout)
		if err != nil {
			return fmt.Errorf("compile the other configuration: %w", err)
		}
		v.policies[key] = p
	}
	if v.key = key; v.checker != nil {
		v.checker.Adopt(v.policies[key], v.config.Limits.Policy(), node)
		return nil
	}
	v.checker = agent.NewRepeater(v.policies[key], v.config.Limits.Policy())
	v.checker.Observer, v.checker.Pods = v, v
	return nil
}

// adjust adds the memory of pods that only this variant has evicted, and subtracts that of those that
// only the agent has.
func (v *variant) adjust(s *signals.Snapshot) {
	more := v.more(v.now)
	var slower float64 // bytes per second
	for uid, t := range v.of.pods {
		switch alive, gone := t.ended.IsZero(), v.hasEvicted(uid, v.now); {
		case alive && gone:
			slower += t.rate
		case !alive && !gone && v.grows:
			slower -= t.rate
		}
	}
	for _, sig := range []signals.Signal{signals.MemoryAvailable, signals.AllocatableMemoryAvailable} {
		o, rate := &s.Node[sig], &s.Rates[sig]
		if o.Known {
			o.Available = o.Available.Plus(more)
		}
		if rate.Over > 0 {
			rate.By -= signals.Amount(slower * rate.Over.Seconds())
		}
	}
}

// hasEvicted reports whether the variant had evicted a pod at a time.
func (v *variant) hasEvicted(uid string, at time.Time) bool {
	when, gone := v.gone[uid]
	return gone && !when.After(at)
}

// more returns by how much the memory of the variant exceeds that of the recorded node, by the pods that it had
// evicted at a time.
func (v *variant) more(at time.Time) (more signals.Amount) {
	for uid, t := range v.of.pods {
		switch alive, gone := t.ended.IsZero(), v.hasEvicted(uid, at); {
		case alive && gone:
			more = more.Plus(t.relief(v.now, false))
		case !alive && !gone:
			more -= t.relief(v.now, v.grows)
		}
	}
	return more
}

// Observe implements agent.Observer.
func (v *variant) Observe(into *signals.Observations, _ signals.Kind) { *into = v.node }

// Measure implements agent.Pods.
func (v *variant) Measure(context.Context) []signals.Candidate {
	var all []signals.Candidate
	for _, uid := range slices.Sorted(maps.Keys(v.of.pods)) {
		t := v.of.pods[uid]
		if v.hasEvicted(uid, v.now) {
			continue
		}
		usage, grown := t.usage, t.grown(v.now, v.grows)
		for _, m := range []*signals.Measured[signals.Bytes]{&usage.Memory, &usage.MemoryRelief} {
			m.Value = signals.Bytes(signals.Amount(m.Value).Plus(grown))
		}
		all = append(all, signals.Candidate{Pod: t.pod, Usage: &usage})
	}
	slices.SortStableFunc(all, func(a, b signals.Candidate) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return all
}

// Stored implements agent.Pods. Pods above a limit of their own end as recorded.
func (v *variant) Stored() []signals.Candidate { return nil }
