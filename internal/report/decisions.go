package report

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
)

// line is a line of the decision log: that of a decision, or of an OOM kill.
type line struct {
	decisionlog.Record
	HeldMost string `json:"heldMost"` // of an OOM kill, as the next one
	Kills    int64  `json:"kills"`

	rawUID string // as in the pods of the recording
}

// Decisions of the log that have a place of their own in a report.
const (
	evictVerb    = "evict"
	wouldVerb    = "would-evict"
	softVerb     = "soft-evict"
	escalateVerb = "escalate"
	killVerb     = "oom-kill"
	checkVerb    = "check"
)

// Bounds of the lists of a line. An agent writes ten pods, and six places.
const (
	maxListed = 10
	maxPlaces = 8
)

// printable makes the texts of a line printable, and bounds them.
func (l *line) printable() {
	l.rawUID = uidOf(l.UID)
	for _, list := range []*[]decisionlog.PodReason{&l.Ranking, &l.Failed, &l.Stalls} {
		*list = (*list)[:min(len(*list), maxListed)]
	}
	for _, list := range []*[]string{&l.Conditions, &l.Unknown} {
		*list = (*list)[:min(len(*list), maxListed)]
	}
	if c := l.Choice; c != nil {
		c.Places = c.Places[:min(len(c.Places), maxPlaces)]
		c.SetOrder()
	}
	names, others := l.Texts()
	for _, name := range append(names, &l.HeldMost) {
		*name = printableName(*name)
	}
	for _, text := range others {
		most := maxNote
		if text == &l.Reason || text == &l.Message {
			most = maxText
		}
		*text = printable(*text, most)
	}
}

// decision is a line of the decision log, or several equal ones.
type decision struct {
	at, last time.Time
	verb     string
	check    string
	signal   string
	limit    string // the threshold, or the signal
	pod      string
	text     string
	repeats  int
}

// addDecision adds a line of the decision log.
func (r *reading) addDecision(d *recording.Decision, t time.Time) {
	var l line
	if json.Unmarshal(d.Line, &l) != nil || l.Decision == "" {
		r.undecoded++
		return
	}
	l.printable()
	verb := string(l.Decision)
	switch verb {
	case checkVerb:
		return
	case killVerb:
		r.addKill(&l, t)
	case evictVerb, wouldVerb, softVerb:
		r.addEvictionLine(&l, d.At, t)
	case "reclaim-done", "terminated", "withdrawn", escalateVerb:
		r.noteResult(&l, t)
	case "none-helps", "limited", "ineffective", "failed", "blocked":
		if l.Repeated == "" {
			r.refusals[verb]++
		}
	}
	if last := r.decisions.latest(); last != nil {
		if x := *last; x.verb == verb && x.signal == l.Signal && x.pod == l.Pod && (l.Repeated != "" || verb == wouldVerb) {
			x.repeats++
			x.last, x.text = t, l.text()
			return
		}
	}
	r.decisions.add(&decision{at: t, last: t, verb: verb, check: l.Check, signal: l.Signal, limit: cmp.Or(l.Threshold, l.Signal), pod: l.Pod, text: l.text()})
}

// maxNamed bounds the names within a text.
const maxNamed = 3

// text describes a line, without its pod and its signal.
func (l *line) text() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(quote(l.Reason))
	switch l.Decision {
	case "conditions":
		add("True now: " + cmp.Or(quote(strings.Join(l.Conditions, ", ")), "no condition"))
	case "signals":
		add("unknown now: " + cmp.Or(quote(strings.Join(l.Unknown, ", ")), "no signal"))
	}
	if l.LimitedBy != "" {
		add("limited by " + quote(l.LimitedBy))
	}
	if l.KubeletWouldEvict != "" && !strings.Contains(l.Reason, "kubelet") {
		add("a kubelet would evict " + quote(l.KubeletWouldEvict))
	}
	for _, f := range l.Failed[:min(len(l.Failed), maxNamed)] {
		add("could not end " + quote(f.Pod) + ": " + quote(f.Reason))
	}
	for _, w := range l.Stalls[:min(len(l.Stalls), maxNamed)] {
		add(quote(w.Pod) + " " + quote(w.Reason))
	}
	if n := max(len(l.Failed), len(l.Stalls)); n > maxNamed {
		add("and further pods")
	}
	add(l.outcome())
	return strings.Join(parts, "; ")
}

// outcome returns what the eviction of a line has led to.
func (l *line) outcome() string {
	var parts []string
	if l.Processes > 0 {
		text := plural(l.Processes, "process") + " got a signal"
		if d, known := millis(l.KillTime); known {
			text += " after " + duration(d)
		}
		parts = append(parts, text)
	}
	if d, known := millis(l.ExitTime); known && !l.ProcessesRemain && l.Processes > 0 {
		parts = append(parts, "the last one exited after "+duration(d))
	}
	if l.ProcessesRemain {
		parts = append(parts, "some have not exited yet")
	}
	if l.FreedBytes != nil {
		if s, err := signals.Parse(l.Signal); err == nil {
			parts = append(parts, amount(signals.Amount(*l.FreedBytes), s.Definition().Unit)+" more available")
		}
	}
	if l.Status == "pending" {
		parts = append(parts, "its status was not reported yet")
	}
	return strings.Join(parts, ", ")
}
