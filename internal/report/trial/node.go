package trial

import (
	"encoding/json"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// node has the facts about a node.
type node struct {
	name   string
	window time.Duration
	files  int
	span   // of its records

	checks, usages []span // without a pause, in the order of the records
	checkRuns      []int  // the run of each span of checks
	counted        []span // likewise, of usages with the machine's counter of OOM kills
	steps          []span // in which the time of day was set: times within are not certain
	vanished       []span // in which a pod ceased to be measured, and its end is not recorded

	decisions   []*decision
	withdrawals []moment
	refusals    []refusal
	departures  []departure
	since       map[string]time.Time // the begin of each measured pod at the earliest, by UID; zero: unknown
	kills       []kill
	increments  []increment
	arming      []string
	undecoded   int // records without a time or a pod, or in a form of another version
	tooMany     bool
	facts       *int // stored of all nodes
	resets      int  // of the time of day
	overlaps    int  // of the checks of two runs
	lostEnds    int  // pods without a recorded end

	run      run
	runs     map[string]int     // numbers of runs
	counters map[string]counter // of OOM kills, by UID; an empty one for the machine. They begin anew with a boot
}

// span is a time from one moment to another.
type span struct{ from, to time.Time }

// touches reports whether two spans have a moment in common.
func (s span) touches(other span) bool { return !s.from.After(other.to) && !s.to.Before(other.from) }

// around returns a span with more time before and after it.
func (s span) around(d time.Duration) span { return span{s.from.Add(-d), s.to.Add(d)} }

// moment is when something happened to a pod.
type moment struct {
	at  time.Time
	uid string
}

// departure is a pod that is no longer active.
type departure struct {
	span
	uid, pod string
	end      recording.End
	place    Place
	since    time.Time      // its begin at the earliest; zero: unknown
	waited   span           // the checks of the run that waited right before it; zero: none
	other    *otherEviction // nil: it is no eviction by another program
}

// refusal is a decision without an eviction.
type refusal struct {
	at       time.Time
	verb     string
	resource string
	reason   string
	place    Place
}

// run is the present run of an agent, as far as it is read.
type run struct {
	header   *recording.Header
	number   int
	period   time.Duration
	clock    time.Duration // by which the time of day was set, as of the last check
	hasClock bool
	checked  time.Time // the last check without a pause since; zero: none
	used     time.Time // likewise the last usage
	counted  time.Time // likewise the last usage with the machine's counter
	pods     map[string]bool
	missing  map[string]span // pods that were measured before and not now, by UID
	open     []*decision     // with a window that may not have ended
	cut      bool            // the last usage lacks pods
	waits    bool            // the last check left a crossed memory threshold to the next periodic one
	waited   span            // of such checks, the last time without another check in between
	resumed  time.Time       // the first check after that; zero: none
}

// defaultPeriod is the time between two periodic checks if the configuration does not have it.
const defaultPeriod = 10 * time.Second

// maxSlew is the largest change of the time of day that is no step.
const maxSlew = time.Second

// periodOf returns the time between two periodic checks.
func periodOf(h *recording.Header) time.Duration {
	var c struct{ MonitoringPeriod string }
	if json.Unmarshal(h.Config, &c) != nil {
		return defaultPeriod
	}
	period, err := time.ParseDuration(c.MonitoringPeriod)
	if err != nil || period <= 0 {
		return defaultPeriod
	}
	return min(period, time.Hour)
}

// pauseOf returns the time between two values from which on some are missing.
func pauseOf(interval time.Duration) time.Duration { return 3*interval + time.Second }

// pause notes that values may be missing before the next one.
func (r *run) pause() { r.checked, r.used, r.counted = time.Time{}, time.Time{}, time.Time{} }

// follows reports whether no value is missing between two times; the first is zero without one.
func follows(before, t time.Time, pause time.Duration) bool {
	return !before.IsZero() && !t.Before(before) && t.Sub(before) <= pause
}

// begin begins a segment, and maybe a run.
func (n *node) begin(h *recording.Header) {
	if h.SameRun(n.run.header) {
		n.run.header, n.run.period = h, periodOf(h)
		return
	}
	n.endRun()
	if before := n.run.header; before == nil || before.BootID != h.BootID {
		clear(n.counters)
	}
	n.run = run{header: h, period: periodOf(h), number: n.numberOf(h)}
}

// numberOf returns the number of a run, which is equal in all files.
func (n *node) numberOf(h *recording.Header) int {
	key := fmt.Sprintf("%s %d %d", uidOf(h.BootID), h.SinceBoot, h.Started.UnixNano())
	number, known := n.runs[key]
	if !known && !n.full(len(n.runs), 1) {
		number = len(n.runs)
		n.runs[key] = number
	}
	return number
}

// endRun notes the pods without a recorded end.
func (n *node) endRun() {
	for _, s := range n.run.missing {
		n.vanished = append(n.vanished, s)
	}
	n.run.missing = nil
}

// add adds an entry of a recording.
func (n *node) add(e *recording.Entry, at Place) {
	switch t := e.Time(); {
	case n.tooMany:
	case t.Year() < 1970 || t.Year() > 9000: // a later one has no form in JSON
		n.skip()
	case e.Check != nil:
		n.addCheck(e.Check, t, at)
	case e.Usage != nil:
		n.addUsage(e.Usage, t, at)
	case e.Decision != nil:
		var l line
		if json.Unmarshal(e.Decision.Line, &l) != nil || l.Decision == "" {
			n.skip()
			return
		}
		n.addLine(&l, t, at)
	}
}

// skip notes a record that is not used. It may be a decision, so that nothing is known around it.
func (n *node) skip() {
	n.undecoded++
	n.run.pause()
}

// noteTime notes the time of a record.
func (n *node) noteTime(t time.Time) {
	if n.from.IsZero() || t.Before(n.from) {
		n.from = t
	}
	if t.After(n.to) {
		n.to = t
	}
}

// addCheck adds a check.
func (n *node) addCheck(c *recording.Check, t time.Time, at Place) {
	r := &n.run
	n.noteTime(t)
	if by := c.Clock - r.clock; r.hasClock && by.Abs() >= maxSlew && !n.full(len(n.steps), 1) {
		n.noteStep(t, by)
	}
	r.clock, r.hasClock = c.Clock, true
	if c.Lost > 0 {
		r.checked = time.Time{}
	}
	r.noteWait(c, t)
	n.checks = n.extend(n.checks, r.checked, t, pauseOf(r.period))
	for len(n.checkRuns) < len(n.checks) {
		n.checkRuns = append(n.checkRuns, r.number)
	}
	r.checked = t
	n.observe(c, t)
	if c.Act != nil && c.Act.Evicted != nil {
		n.addEviction(c, t, at)
	}
}

// noteWait notes whether an early check crossed a memory threshold without imminent exhaustion. Behind a pause, the
// time before does not count.
func (r *run) noteWait(c *recording.Check, t time.Time) {
	if !follows(r.checked, t, pauseOf(r.period)) {
		r.waits, r.waited = false, span{}
	}
	reason := eviction.Reason(c.Reason)
	waits := reason == eviction.NotImminent || reason == eviction.Unconfirmed
	switch {
	case waits && r.waits:
		r.waited.to = t
	case waits:
		r.waited, r.resumed = span{t, t}, time.Time{}
	case r.waits:
		r.resumed = t
	}
	r.waits = waits
}

// noticed bounds the time from the end of a pod's processes until its end is noticed.
const noticed = 10 * time.Second

// waitedBefore returns the time in which checks waited, if they did until a pod ended; else zero.
func (r *run) waitedBefore(end span) span {
	if r.waited.to.IsZero() || r.waited.from.After(end.to) || !r.waits && r.resumed.Before(end.from.Add(-noticed)) {
		return span{}
	}
	return r.waited
}

// noteStep notes that the time of day was set.
func (n *node) noteStep(t time.Time, by time.Duration) {
	s := span{t, t.Add(-by)}
	if by > 0 {
		s = span{s.to, s.from}
	}
	n.steps = append(n.steps, s.around(pauseOf(n.run.period)))
	n.run.pause()
}

// full counts a fact, and reports whether it is one too many. Without comparison none is stored then.
func (n *node) full(stored, size int) bool {
	*n.facts += size
	n.tooMany = n.tooMany || stored >= maxFacts || *n.facts > maxAllFacts
	return n.tooMany
}

// extend adds a time to spans. It continues the last one, if that ends with the time before, and that is no pause.
func (n *node) extend(spans []span, before, t time.Time, pause time.Duration) []span {
	if last := len(spans) - 1; last >= 0 && spans[last].to.Equal(before) && follows(before, t, pause) {
		spans[last].to = t
		return spans
	}
	if n.full(len(spans), 1) {
		return spans
	}
	return append(spans, span{t, t})
}

// maxOpen bounds the decisions for which the least amount is followed. A dry run has one each 30 s.
const maxOpen = 16

// observe notes what was available at a check.
func (n *node) observe(c *recording.Check, t time.Time) {
	open := n.run.open[:0]
	for _, d := range n.run.open {
		if t.Sub(d.at) > n.window {
			continue
		}
		open = append(open, d)
		s, err := signals.Parse(d.cause)
		if err != nil {
			continue
		}
		if o := &c.Snapshot.Node[s]; o.Known && (d.least == nil || int64(o.Available) < *d.least) {
			d.least = new(int64(o.Available))
		}
	}
	n.run.open = open
}

// addUsage adds a usage: the ends of pods, and the counters of OOM kills.
func (n *node) addUsage(u *recording.Usage, t time.Time, at Place) {
	n.noteTime(t)
	r := &n.run
	pause := pauseOf(max(r.period, defaultPeriod))
	isNext := follows(r.used, t, pause)
	s := span{t.Add(-pause), t}
	if isNext {
		s.from = r.used
	} else {
		n.endRun()
	}
	n.usages = n.extend(n.usages, r.used, t, pause)
	if kills := u.Node[recording.NodeOOMKills]; kills >= 0 {
		n.counted = n.extend(n.counted, r.counted, t, pause)
		r.counted = t
		n.count("", "", kills, t, at)
	} else {
		r.counted = time.Time{}
	}
	now := make(map[string]bool, len(u.Pods))
	for i := range u.Pods {
		p := &u.Pods[i]
		uid := uidOf(p.Pod.UID)
		now[uid] = true
		n.noteBegin(uid, s, isNext && !r.cut && !u.Cut)
		n.count(uid, p.Pod.Key(), p.Values[recording.OOMKills], t, at)
	}
	for _, g := range u.Gone {
		uid := uidOf(g.Pod.UID)
		delete(r.pods, uid)
		delete(r.missing, uid)
		if !n.full(len(n.departures), 1) {
			n.departures = append(n.departures, departure{span: s, uid: uid, pod: printableName(g.Pod.Key()), end: g.End, place: at, waited: r.waitedBefore(s)})
		}
	}
	if isNext {
		n.noteMissing(now, s)
	}
	r.used, r.pods, r.cut = t, now, u.Cut
}

// noteBegin notes the begin of a measured pod. It is known if the usage at the begin of the span has all pods, and the pod
// was measured at no other time before.
func (n *node) noteBegin(uid string, s span, complete bool) {
	before, known := n.since[uid]
	switch {
	case known && before.After(s.to): // the time of day was set, or it is an earlier file
		n.since[uid] = time.Time{}
	case !known && !n.full(len(n.since), 1) && complete:
		n.since[uid] = s.from
	case !known:
		n.since[uid] = time.Time{}
	}
}

// noteMissing notes the pods that the last usage has and this one has not, without a recorded end. Those that are
// measured again, or that end later, are removed.
func (n *node) noteMissing(now map[string]bool, s span) {
	r := &n.run
	for uid := range now {
		delete(r.missing, uid)
	}
	for uid := range r.pods {
		if !now[uid] && !n.full(len(n.vanished)+len(r.missing), 1) {
			if r.missing == nil {
				r.missing = map[string]span{}
			}
			r.missing[uid] = s
		}
	}
}
