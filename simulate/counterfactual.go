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

// Counterfactual is what happened in a recording, and what would have happened with another
// configuration, between two bounds.
type Counterfactual struct {
	Checks   int
	From, To time.Time // by the time of day
	Recorded Course
	// Kept is the course if the pods that the agent evicted, and that the other configuration does
	// not, had kept their size. Grown is that if they had gone on growing as before their end.
	Kept, Grown Course
	OOMKills    int64 // of the kernel, recorded; [recording.Unknown] if not counted
	Damage      recording.Damage
}

// Course is the course of a node.
type Course struct {
	Evictions []CourseEviction
	Spared    int                                   // checks that passed over the kubelet's choice
	Pressure  [signals.ConditionCount]time.Duration // in which the condition was True
	Least     signals.Measured[signals.Bytes]       // memory left before an OOM kill, at least
	Exhausted time.Time                             // the first check without any, by the time of day; zero: none

	at  time.Time // the last check
	set signals.ConditionSet
}

// CourseEviction is an eviction of a course.
type CourseEviction struct {
	At    time.Time // by the time of day
	Pod   string
	Cause string
	Early bool
}

// CompareRecording runs the checks of a recording with another configuration. It returns
// [recording.ErrNoRecording], or an error of that configuration.
func CompareRecording(data []byte, other *config.Agent) (*Counterfactual, error) {
	x := &comparer{pods: map[string]*track{}, result: &Counterfactual{OOMKills: recording.Unknown}}
	x.kept = &variant{of: x, config: other, policies: map[policyKey]*eviction.Policy{}, gone: map[string]bool{}, course: &x.result.Kept}
	x.grown = &variant{of: x, config: other, policies: map[policyKey]*eviction.Policy{}, gone: map[string]bool{}, course: &x.result.Grown, grows: true}
	r := recording.NewReader(data)
	var kills int64 = recording.Unknown
	var run *recording.Header
	for e := r.Next(); e != nil; e = r.Next() {
		switch {
		case e.Header != nil:
			if !e.Header.SameRun(run) {
				x.forgetActive()
			}
			run = e.Header
		case e.Usage != nil:
			x.addUsage(e.Usage)
			if n := e.Usage.Node[recording.NodeOOMKills]; n != recording.Unknown {
				if kills == recording.Unknown {
					kills = n
				}
				x.result.OOMKills = max(n-kills, 0)
			}
		case e.Check != nil:
			if err := x.addCheck(e.Check); err != nil {
				return nil, err
			}
		}
	}
	x.result.Damage = r.Damage()
	if x.result.Checks == 0 {
		return nil, recording.ErrNoRecording
	}
	return x.result, nil
}

// comparer follows the pods of a recording.
type comparer struct {
	pods        map[string]*track // by UID
	kept, grown *variant
	result      *Counterfactual
}

// forgetActive forgets the pods that have not ended: some may have ended between two runs of the agent.
func (x *comparer) forgetActive() {
	maps.DeleteFunc(x.pods, func(_ string, t *track) bool { return t.ended.IsZero() })
}

func (x *comparer) track(p *signals.Pod) *track {
	t := x.pods[p.UID]
	if t == nil {
		t = &track{}
		x.pods[p.UID] = t
	}
	t.pod = p
	return t
}

func (x *comparer) addUsage(u *recording.Usage) {
	for i := range u.Pods {
		p := &u.Pods[i]
		t := x.track(p.Pod)
		if !t.ended.IsZero() {
			continue // its processes remain for a moment
		}
		t.measure(measuredValue[signals.Bytes](p.Values[recording.WorkingSet]), u.At)
		t.usage.MemoryRelief = reliefOf(&p.Values)
		if tasks := measuredValue[signals.PIDs](p.Values[recording.Tasks]); tasks.Known {
			t.usage.Tasks = tasks
			if !t.usage.Processes.Known {
				t.usage.Processes = tasks
			}
		}
		if disk := measuredValue[signals.Bytes](p.Values[recording.Disk]); disk.Known {
			t.usage.EphemeralStorage = disk
		}
	}
	for _, g := range u.Gone {
		t := x.pods[g.Pod.UID]
		switch {
		case t == nil:
		case !t.evicted:
			delete(x.pods, g.Pod.UID) // with either configuration
		case t.ended.IsZero(): // a soft eviction
			t.ended = u.At
		}
	}
}

// addCheck makes the check with the other configuration, before its recorded result takes effect.
func (x *comparer) addCheck(c *recording.Check) error {
	now, a := c.Snapshot.At, c.Act
	if a != nil && len(a.Measured) > 0 {
		for _, m := range a.Measured[len(a.Measured)-1] {
			t := x.track(m.Pod)
			if m.Usage == nil || !t.ended.IsZero() {
				continue
			}
			t.measure(m.Usage.Memory, now)
			rest := *m.Usage
			rest.Memory = t.usage.Memory
			t.usage = rest
		}
	}
	for _, v := range []*variant{x.kept, x.grown} {
		if err := v.check(c); err != nil {
			return err
		}
	}
	r := x.result
	if r.Checks++; r.Checks == 1 {
		r.From = c.At()
	}
	r.To = c.At()
	r.Recorded.add(c.At(), c.Conditions, &c.Snapshot.Node[signals.MemoryAvailable])
	if a != nil {
		x.apply(c)
	}
	return nil
}

// apply applies the recorded result of a check.
func (x *comparer) apply(c *recording.Check) {
	course, e := &x.result.Recorded, c.Act.Evicted
	if c.Act.KubeletsPod != nil {
		course.Spared++
	}
	if e == nil || e.DryRun {
		return
	}
	course.Evictions = append(course.Evictions, CourseEviction{c.At(), e.Pod.Key(), e.Cause, c.Snapshot.Kind == signals.Early})
	if _, err := signals.Parse(e.Cause); err != nil {
		return // above a limit of its own, with either configuration
	}
	if t := x.track(e.Pod); t.ended.IsZero() {
		if t.evicted = true; e.Hard {
			t.ended = c.Snapshot.At
		}
	}
}

// add adds a check to a course.
func (c *Course) add(at time.Time, conditions signals.ConditionSet, memory *signals.Observation) {
	for condition := range signals.Condition(signals.ConditionCount) {
		if c.set.Has(condition) {
			c.Pressure[condition] += max(at.Sub(c.at), 0)
		}
	}
	c.at, c.set = at, conditions
	if !memory.Known {
		return
	}
	left := signals.Bytes(memory.Headroom())
	if !c.Least.Known || left < c.Least.Value {
		c.Least = signals.Of(left)
	}
	if left <= 0 && c.Exhausted.IsZero() {
		c.Exhausted = at
	}
}

// variant is the node with the other configuration, for one of the bounds.
type variant struct {
	of       *comparer
	config   *config.Agent
	policies map[policyKey]*eviction.Policy
	checker  *agent.Checker
	key      policyKey
	grows    bool
	gone     map[string]bool // UIDs of the pods that it has evicted
	course   *Course

	now  time.Time
	node signals.Observations
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
	v.course.add(c.At(), o.Verdict.Conditions, &s.Node[signals.MemoryAvailable])
	if o.KubeletsPod != nil && !c.Brief { // of a brief check it is not recorded
		v.course.Spared++
	}
	if e := o.Evicted; e != nil {
		v.gone[e.Pod.UID] = true
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
	var more signals.Amount
	var slower float64 // bytes per second
	for uid, t := range v.of.pods {
		switch alive := t.ended.IsZero(); {
		case alive && v.gone[uid]:
			more, slower = more.Plus(t.relief(v.now, false)), slower+t.rate
		case !alive && !v.gone[uid]:
			if more -= t.relief(v.now, v.grows); v.grows {
				slower -= t.rate
			}
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

// Observe implements agent.Observer.
func (v *variant) Observe(into *signals.Observations, _ signals.Kind) { *into = v.node }

// Measure implements agent.Pods.
func (v *variant) Measure(context.Context) []signals.Candidate {
	var all []signals.Candidate
	for _, uid := range slices.Sorted(maps.Keys(v.of.pods)) {
		t := v.of.pods[uid]
		if v.gone[uid] {
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
