package simulate

import (
	"time"

	"plimsoll.dev/plimsoll/agent/config"
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
	// ExhaustedFor is the time without any memory left, from check to check. Kills is the number of processes that the
	// kernel killed, as recorded, for the memory of the node or of all pods, and that the course does not save.
	ExhaustedFor time.Duration
	Kills        int64

	at          time.Time // the last check
	set         signals.ConditionSet
	isExhausted bool // in the last check
}

// CourseEviction is an eviction of a course.
type CourseEviction struct {
	At    time.Time // by the time of day
	Pod   string
	Cause string
	Early bool
}

// CompareRecording runs the checks of a recording with another configuration. It returns
// [recording.ErrNoRecording], [ErrTooManyPods], [ErrLargePods], or an error of that configuration.
func CompareRecording(data []byte, other *config.Agent) (*Counterfactual, error) {
	all, err := CompareEach(data, []*config.Agent{other})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// CompareEach is [CompareRecording] with several configurations, for one reading of the recording. The results are
// in the order of the configurations.
func CompareEach(data []byte, others []*config.Agent) ([]*Counterfactual, error) {
	x := &comparer{pods: map[string]*track{}, sizes: map[*signals.Pod]int{}}
	results := make([]*Counterfactual, len(others))
	for i, other := range others {
		results[i] = &Counterfactual{}
		x.variants = append(x.variants, newVariant(x, other, &results[i].Kept), newVariant(x, other, &results[i].Grown))
		x.variants[2*i+1].grows = true
	}
	x.kills.last, x.kills.first = recording.Unknown, recording.Unknown
	r := recording.NewReader(data)
	var run *recording.Header
	for e := r.Next(); e != nil; e = r.Next() {
		var err error
		switch {
		case e.Header != nil:
			clear(x.sizes) // a segment has pods of its own
			if !e.Header.SameRun(run) {
				x.beginRun()
			}
			run = e.Header
		case e.Usage != nil:
			err = x.addUsage(e.Usage)
		case e.Decision != nil:
			x.addLine(e.Decision)
		case e.Check != nil:
			err = x.addCheck(e.Check)
		}
		if err != nil {
			return nil, err
		}
	}
	if x.checks == 0 {
		return nil, recording.ErrNoRecording
	}
	for _, result := range results {
		result.Checks, result.From, result.To, result.Recorded = x.checks, x.from, x.to, x.recorded
		result.OOMKills, result.Damage = x.kills.since(), r.Damage()
	}
	return results, nil
}

// comparer follows the pods of a recording.
type comparer struct {
	pods     map[string]*track    // by UID
	size     int                  // of all tracks, in bytes
	sizes    map[*signals.Pod]int // of the pods of the present segment, as JSON
	variants []*variant           // two of each configuration
	checks   int
	from, to time.Time // of the checks, by the time of day
	recorded Course
	kills    killCounter
	shortage shortage
	node     signals.Observations // of the last check
}

// beginRun forgets the pods that have not ended: some may have ended between two runs of the agent. What was
// the case in between is not known.
func (x *comparer) beginRun() {
	for uid, t := range x.pods {
		if t.ended.IsZero() {
			x.forget(uid)
		}
	}
	x.recorded.isExhausted, x.shortage = false, shortage{}
	for _, v := range x.variants {
		v.course.isExhausted = false
	}
}

// addUsage adds the usage of all pods. Returns an error if they are beyond a bound.
func (x *comparer) addUsage(u *recording.Usage) error {
	x.kills.add(u.Node[recording.NodeOOMKills])
	for i := range u.Pods {
		p := &u.Pods[i]
		t, err := x.track(p.Pod)
		if err != nil {
			return err
		}
		if !t.ended.IsZero() {
			continue // its processes remain for a moment
		}
		t.measure(recording.Measured[signals.Bytes](p.Values[recording.WorkingSet]), u.At)
		t.usage.MemoryRelief = recording.MemoryRelief(&p.Values)
		if tasks := recording.Measured[signals.PIDs](p.Values[recording.Tasks]); tasks.Known {
			t.usage.Tasks = tasks
			if !t.usage.Processes.Known {
				t.usage.Processes = tasks
			}
		}
		if disk := recording.Measured[signals.Bytes](p.Values[recording.Disk]); disk.Known {
			t.usage.EphemeralStorage = disk
		}
	}
	for _, g := range u.Gone {
		t := x.pods[g.Pod.UID]
		switch {
		case t == nil:
		case !t.evicted:
			x.forget(g.Pod.UID) // with either configuration
		case t.ended.IsZero(): // a soft eviction
			t.ended = u.At
		}
	}
	return nil
}

// addCheck makes the check with the other configuration, before its recorded result takes effect.
func (x *comparer) addCheck(c *recording.Check) error {
	now, a := c.Snapshot.At, c.Act
	if a != nil && len(a.Measured) > 0 {
		for _, m := range a.Measured[len(a.Measured)-1] {
			t, err := x.track(m.Pod)
			if err != nil {
				return err
			}
			if m.Usage == nil || !t.ended.IsZero() {
				continue
			}
			t.measure(m.Usage.Memory, now)
			rest, before := *m.Usage, t.size()
			rest.Memory = t.usage.Memory
			t.usage = rest
			if err = x.resized(t, before); err != nil {
				return err
			}
		}
	}
	for _, v := range x.variants {
		if err := v.check(c); err != nil {
			return err
		}
	}
	if x.checks++; x.checks == 1 {
		x.from = c.At()
	}
	x.to, x.node = c.At(), c.Snapshot.Node
	x.recorded.add(c, c.Conditions, &c.Snapshot.Node[signals.MemoryAvailable])
	if a != nil {
		return x.apply(c)
	}
	return nil
}

// apply applies the recorded result of a check. Returns an error if the evicted pod is beyond a bound.
func (x *comparer) apply(c *recording.Check) error {
	course, e := &x.recorded, c.Act.Evicted
	if c.Act.KubeletsPod != nil {
		course.Spared++
	}
	if e == nil || e.DryRun {
		return nil
	}
	x.shortage = shortage{}
	course.Evictions = append(course.Evictions, CourseEviction{c.At(), e.Pod.Key(), e.Cause, c.Snapshot.Kind == signals.Early})
	if _, err := signals.Parse(e.Cause); err != nil {
		return nil // above a limit of its own, with either configuration
	}
	t, err := x.track(e.Pod)
	if err != nil {
		return err
	}
	if t.ended.IsZero() {
		if t.evicted = true; e.Hard {
			t.ended = c.Snapshot.At
		}
	}
	return nil
}

// add adds a check to a course, with its conditions and memory there. Durations are by the clock that is never set.
func (c *Course) add(check *recording.Check, conditions signals.ConditionSet, memory *signals.Observation) {
	at := check.Snapshot.At
	for condition := range signals.Condition(signals.ConditionCount) {
		if c.set.Has(condition) {
			c.Pressure[condition] += max(at.Sub(c.at), 0)
		}
	}
	if c.isExhausted {
		c.ExhaustedFor += max(at.Sub(c.at), 0)
	}
	c.at, c.set = at, conditions
	if !memory.Known {
		return
	}
	left := signals.Bytes(memory.Headroom())
	c.isExhausted = left <= 0
	if !c.Least.Known || left < c.Least.Value {
		c.Least = signals.Of(left)
	}
	if left <= 0 && c.Exhausted.IsZero() {
		c.Exhausted = check.At()
	}
}
