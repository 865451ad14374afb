package report

import (
	"slices"
	"strconv"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/why"
)

// evicted is an eviction by the agent, or one that a disarmed agent would have made.
type evicted struct {
	at, last time.Time
	repeats  int       // of a dry run
	moment   time.Time // of the check, by the clock that is never set
	uid, pod string
	cause    string
	dryRun   bool

	record  decisionlog.Record // of its line, else what its check has. Its texts are quoted
	results []string
}

// maxResults bounds what followed an eviction.
const maxResults = 4

// eviction returns the eviction of a pod by a check, which may have an entry already. A dry run that
// repeats the previous one is no new entry.
func (r *reading) eviction(moment, t time.Time, uid, pod string, dryRun bool) *evicted {
	if last := r.evictions.latest(); last != nil {
		x := *last
		switch {
		case x.uid != uid || x.pod != pod:
		case x.moment.Equal(moment):
			return x
		case dryRun && x.dryRun:
			x.repeats++
			x.last, x.moment = t, moment
			return x
		}
	}
	x := &evicted{at: t, last: t, moment: moment, uid: uid, pod: pod, dryRun: dryRun}
	r.evictions.add(x)
	if dryRun {
		r.dryRuns++
	} else {
		r.noteOwn(uid)
	}
	return x
}

// addEvictionLine adds the line of an eviction. The check follows.
func (r *reading) addEvictionLine(l *line, moment, t time.Time) {
	if x := r.eviction(moment, t, l.rawUID, l.Pod, l.Decision == wouldVerb); x.repeats == 0 {
		x.describe(&l.Record)
	}
}

// addEviction adds the eviction that a check decided, unless its line is recorded.
func (r *reading) addEviction(c *recording.Check, t time.Time) {
	a, s, e := c.Act, &c.Snapshot, c.Act.Evicted
	x := r.eviction(s.At, t, uidOf(e.Pod.UID), printableName(e.Pod.Key()), e.DryRun)
	if x.repeats > 0 || x.record.Choice != nil {
		return
	}
	l := line{Record: decisionlog.Record{Check: s.Kind.String(), Signal: e.Cause, Pod: e.Pod.Key(), UID: e.Pod.UID, Message: e.Message, Choice: &decisionlog.Choice{Cause: e.Cause}}}
	if !e.Hard {
		l.Grace = &e.GracePeriod
	}
	if cause, err := signals.Parse(e.Cause); err == nil && s.Node[cause].Known {
		available, capacity := int64(s.Node[cause].Available), int64(s.Node[cause].Capacity)
		l.Threshold, l.Available, l.Capacity = e.Cause, &available, &capacity
	}
	for _, f := range a.Failed {
		l.Failed = append(l.Failed, decisionlog.PodReason{Pod: f.Pod.Key(), Reason: f.Error})
	}
	l.printable()
	if x.record.Pod == "" {
		x.describe(&l.Record)
	} else if isLimit(e.Cause) { // the line has the signal of another decision
		x.record.Choice = l.Choice
	}
}

// describe sets the record of an eviction.
func (x *evicted) describe(r *decisionlog.Record) {
	x.record, x.cause = *r, r.Signal
	q := &x.record
	q.Ranking, q.Failed, q.Stalls, q.Conditions, q.Unknown = slices.Clone(r.Ranking), slices.Clone(r.Failed[:min(len(r.Failed), maxNamed)]), nil, nil, nil
	if r.Choice != nil {
		choice := *r.Choice
		choice.Places = slices.Clone(choice.Places)
		q.Choice, x.cause = &choice, choice.Cause
	}
	names, others := q.Texts()
	for _, text := range append(names, others...) {
		if _, err := signals.Parse(*text); err != nil && !isLimit(*text) && *text != signals.Early.String() && *text != signals.Periodic.String() {
			*text = quote(*text)
		}
	}
}

// isLimit reports whether a cause is a local-storage limit of the pod.
func isLimit(cause string) bool {
	return cause == eviction.EmptyDirStorageLimit || cause == eviction.PodStorageLimit || cause == eviction.ContainerStorageLimit
}

// noteResult adds what followed an eviction, to the latest one of the pod.
func (r *reading) noteResult(l *line, t time.Time) {
	items, _ := r.evictions.all()
	for _, x := range slices.Backward(items) {
		if x.uid != l.rawUID || x.pod != l.Pod || x.dryRun {
			continue
		}
		text := quote(string(l.Decision)) + " at " + r.moment(t)
		for _, more := range []string{quote(l.Reason), l.outcome()} {
			if more != "" {
				text += ", " + more
			}
		}
		if len(x.results) < maxResults {
			x.results = append(x.results, text)
		}
		return
	}
}

// differs reports whether a kubelet would have chosen another pod, or none, as far as that is recorded.
func (x *evicted) differs() bool {
	c := x.record.Choice
	return c != nil && len(c.Places) > 0 && c.Kubelet != x.record.Pod
}

// facts returns the facts about an eviction, with their names.
func (i *Incident) facts(x *evicted) [][2]string {
	when := i.moment(x.at) + why.CheckText(&x.record)
	if x.repeats > 0 {
		when += ", repeated " + times(x.repeats) + " until " + i.clock(x.last)
	}
	facts := append([][2]string{{"Time", when}}, why.Facts(&x.record)...)
	if x.dryRun {
		facts[1][1] = "dry run: the agent is disarmed, and the pod was not ended. Otherwise: " + facts[1][1]
	}
	for _, result := range x.results {
		facts = append(facts, [2]string{"Result", result})
	}
	explained := why.Explain("", &x.record)
	for _, reason := range explained.Reasons() {
		facts = append(facts, [2]string{"Choice", reason})
	}
	return slices.DeleteFunc(facts, func(f [2]string) bool { return f[1] == "" })
}

// places returns the recorded part of the ranking of an eviction; nil without any.
func (x *evicted) places() *table {
	t := &table{Caption: "First pods of the ranking, the first to evict at the top", Heads: []string{"Pod", "Place", "Why it has its place"}}
	if c := x.record.Choice; c != nil && len(c.Places) > 0 {
		t.Caption = "Ranking of " + plural(c.Pods, "pod") + " at that time, the first to evict at the top"
		for n := range c.Places {
			p := &c.Places[n]
			t.Rows = append(t.Rows, row{Cells: []string{p.Pod, strconv.Itoa(p.Place), why.PlaceText(p)}, Chosen: p.UID == x.record.UID && p.Pod == x.record.Pod})
		}
		return t
	}
	for n, p := range x.record.Ranking {
		t.Rows = append(t.Rows, row{Cells: []string{p.Pod, strconv.Itoa(n + 1), p.Reason}, Chosen: p.Pod == x.record.Pod})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}
