package report

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// reading is an incident in progress: the second pass over a recording.
type reading struct {
	*Incident
	within func(time.Time) bool

	run       *agentRun
	checked   time.Time     // the last check; zero: none of this run
	measured  time.Time     // the last usage, likewise
	last      time.Time     // the last value of any run
	step      time.Duration // by which the time of day was set, as of the last check
	stepped   bool          // step is known
	cut       int
	undecoded int // decisions in an unknown form

	own       map[string]bool // UIDs of pods that the agent has evicted
	used      time.Time       // the last usage of any run
	nodeKills int64           // the kernel's counter then
	podKills  map[string]*podKills
	lineKills map[string]int64 // processes, by UID of the pod
}

func newReading(s *survey, o Options) *reading {
	i := &Incident{begin: s.from, end: s.to, asked: o, refusals: map[string]int{}, counted: recording.Unknown}
	i.evictions.limit, i.decisions.limit, i.departures.limit, i.kills.limit, i.gaps.limit, i.changes.limit = maxEvictions, maxDecisions, maxDepartures, maxKills, maxGaps, maxChanges
	i.memory = newMemory(s, i.span())
	return &reading{Incident: i, within: s.within, own: map[string]bool{}, nodeKills: recording.Unknown, podKills: map[string]*podKills{}, lineKills: map[string]int64{}}
}

// add adds an entry of the recording.
func (r *reading) add(e *recording.Entry) {
	t := e.Time()
	switch {
	case e.Header != nil:
		r.beginRun(e.Header)
	case e.IsPod:
	case !r.within(t):
		r.noteOutside(e)
	case e.Check != nil:
		r.noteTime(t)
		r.addCheck(e.Check, t)
	case e.Usage != nil:
		r.noteTime(t)
		r.addUsage(e.Usage, t)
	case e.Decision != nil:
		r.noteTime(t)
		r.addDecision(e.Decision, t)
	}
}

// beginRun begins a segment, and maybe a run.
func (r *reading) beginRun(h *recording.Header) {
	if r.run != nil && h.SameRun(r.run.header) {
		if !bytes.Equal(h.Config, r.run.header.Config) {
			r.run.configure(h)
			r.run.changed = true
		}
		return
	}
	sameBoot := r.run != nil && h.BootID == r.run.header.BootID && h.Node == r.run.header.Node
	r.run = newAgentRun(h)
	r.checked, r.measured, r.stepped = time.Time{}, time.Time{}, false
	if !sameBoot { // the kernel's counters begin anew
		r.nodeKills = recording.Unknown
		for _, k := range r.podKills {
			k.last = recording.Unknown
		}
	}
	r.pause()
}

// noteOutside notes what matters of a value before the begin, or after the end: the evicted pods.
func (r *reading) noteOutside(e *recording.Entry) {
	if c := e.Check; c != nil {
		r.step, r.stepped, r.run.changed = c.Clock, true, false
		if c.Act != nil && c.Act.Evicted != nil && !c.Act.Evicted.DryRun {
			r.noteOwn(uidOf(c.Act.Evicted.Pod.UID))
		}
	}
}

// noteOwn notes that the agent has evicted a pod.
func (r *reading) noteOwn(uid string) {
	if len(r.own) < maxUIDs {
		r.own[uid] = true
	}
}

// noteTime notes a value of the run.
func (r *reading) noteTime(t time.Time) {
	run := r.run
	if run.from.IsZero() {
		run.from = t
		if !r.last.IsZero() {
			r.gaps.add(fmt.Sprintf("Another run of an agent begins at %s. The last value before it is of %s.", r.clock(t), r.clock(r.last)))
		}
		if len(r.agents) < maxAgents {
			r.agents = append(r.agents, run)
		} else {
			r.moreAgents++
		}
	}
	run.to, r.last = t, t
}

// pause notes that values are missing from here on: nothing is connected over it.
func (r *reading) pause() {
	for _, h := range r.histories {
		if h != nil {
			h.pause()
		}
	}
	for i := range r.conditions {
		r.conditions[i].held = false
	}
	r.memory.part++
}

// noteGap notes a time without checks.
func (r *reading) noteGap(t time.Time) {
	since := r.checked
	r.checked = t
	if since.IsZero() || t.Sub(since) <= r.run.pause(0) {
		return
	}
	r.gaps.add(fmt.Sprintf("No check is recorded between %s and %s (%s).", r.clock(since), r.clock(t), duration(t.Sub(since))))
	r.pause()
}

// noteClock notes a step of the time of day.
func (r *reading) noteClock(c *recording.Check, t time.Time) {
	if by := c.Clock - r.step; by != 0 && r.stepped {
		r.gaps.add(fmt.Sprintf("The time of day was set by %s before %s. Times before and after that do not follow each other.", by, r.clock(t)))
		r.pause()
		r.checked = t
	}
	r.step, r.stepped = c.Clock, true
}

func (r *reading) addCheck(c *recording.Check, t time.Time) {
	r.noteClock(c, t)
	r.noteGap(t)
	if c.Lost > 0 {
		r.gaps.add(fmt.Sprintf("%d checks or decisions before %s were not recorded: the disk was full or too slow.", c.Lost, r.clock(t)))
		r.pause()
	}
	if c.Cut {
		r.cut++
	}
	at, span := r.at(t), r.span()
	if c.Snapshot.Kind == signals.Early {
		r.early.mark(t, at, span)
	} else {
		r.periodic.mark(t, at, span)
	}
	if r.run.changed {
		r.run.changed = false
		r.changes.add(r.clock(t))
	}
	policy := r.run.policy(c.Layout)
	for s := range signals.All {
		o := &c.Snapshot.Node[s]
		if !o.Known && !c.Unknown.Has(s) {
			continue
		}
		h := r.history(s)
		if o.Known {
			h.observe(o, policy, t, at)
			continue
		}
		if h.unknown++; h.unknown == 1 {
			h.cause = printable(o.Cause, maxNote)
		}
	}
	for n := range r.conditions {
		r.conditions[n].hold(c.Conditions.Has(signals.Condition(n)), t, at, span)
	}
	if a := c.Act; a != nil {
		if a.Acted {
			r.history(a.Signal).acted = true
		}
		if a.Evicted != nil {
			r.addEviction(c, t)
		}
	}
}

// history returns the history of a signal.
func (r *reading) history(s signals.Signal) *history {
	h := r.histories[s]
	if h == nil {
		h = &history{signal: s, available: series{span: r.span()}}
		r.histories[s] = h
	}
	return h
}

func (r *reading) addUsage(u *recording.Usage, t time.Time) {
	if !r.measured.IsZero() && t.Sub(r.measured) > r.run.pause(defaultPeriod) {
		r.memory.part++
	}
	r.measured = t
	r.usages++
	r.memory.add(u, t, r.at(t))
	r.countKills(u, t)
	for _, g := range u.Gone {
		if g.End.Evicted() && !r.own[uidOf(g.Pod.UID)] {
			r.departures.add(departure{at: t, pod: printableName(g.Pod.Key())})
		}
	}
}

// conclude completes the incident.
func (r *reading) conclude(s *survey) {
	for _, h := range r.histories {
		if h == nil {
			continue
		}
		for _, c := range h.crossings {
			c.atEnd = c.below
		}
		h.pause()
	}
	r.concludeKills()
	r.noteMissing(s)
}

// noteMissing states what the recording does not have, beside the times without checks.
func (r *reading) noteMissing(s *survey) {
	note := func(is bool, format string, args ...any) {
		if is {
			r.notes = append(r.notes, fmt.Sprintf(format, args...))
		}
	}
	asked := r.asked
	note(!asked.Begin.IsZero() && r.begin.Sub(asked.Begin) > defaultPeriod+time.Second, "The first recorded value is of %s; the report was requested from %s on.", r.begin.UTC().Format(stamp), asked.Begin.UTC().Format(stamp))
	note(!asked.End.IsZero() && asked.End.Sub(r.end) > defaultPeriod+time.Second, "The last recorded value is of %s; the report was requested until %s.", r.end.UTC().Format(stamp), asked.End.UTC().Format(stamp))
	for _, a := range r.agents {
		note(a.problem != "", "The configuration of agent %s cannot be read, so that its thresholds are unknown: %s.", quote(a.version), quote(a.problem))
	}
	note(r.moreAgents > 0, "%d further runs of agents are not listed.", r.moreAgents)
	for _, h := range r.histories {
		if h != nil && h.unknown > 0 {
			note(true, "%s was unknown in %s, first because: %s.", h.signal, plural(h.unknown, "check"), quote(cmp.Or(h.cause, "not recorded")))
		}
	}
	for _, h := range r.histories {
		if h != nil && h.more {
			note(true, "%s has further thresholds, of other configurations.", h.signal)
		}
	}
	note(r.periodic.count+r.early.count == 0, "No check is recorded.")
	note(r.usages == 0, "The memory of pods is not recorded.")
	note(r.memory.unknown > 0, "Values of the memory of pods that could not be read: %d. They are missing in the picture and its table.", r.memory.unknown)
	note(s.more, "The recording has more than %d pods. The others count as further pods.", maxUIDs)
	note(r.counted == recording.Unknown, "OOM kills of the kernel are not counted in the recording.")
	note(r.cut > 0, "Checks without a part of their pods: %d. These have more containers and volumes than a recording stores.", r.cut)
	note(r.undecoded > 0, "Decisions in a form that this version cannot read: %d.", r.undecoded)
	note(r.damaged.Any() || r.damaged.Tail > 0, "Parts of the whole recording are not readable: %s.", &r.damaged)
}
