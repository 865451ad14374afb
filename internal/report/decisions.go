package report

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// line has the keys of the decision log that a report shows: docs/reference/decision-log.md.
type line struct {
	Decision          string      `json:"decision"`
	Check             string      `json:"check"`
	Reason            string      `json:"reason"`
	Signal            string      `json:"signal"`
	Pod               string      `json:"pod"`
	UID               string      `json:"uid"`
	Message           string      `json:"message"`
	Ranking           []podReason `json:"ranking"`
	Failed            []podReason `json:"failed"`
	Processes         int         `json:"processes"`
	Status            string      `json:"status"`
	KillTime          *float64    `json:"killMillis"`
	ExitTime          *float64    `json:"exitMillis"`
	ProcessesRemain   bool        `json:"processesRemain"`
	Freed             *int64      `json:"freedBytes"`
	LimitedBy         string      `json:"limitedBy"`
	KubeletWouldEvict string      `json:"kubeletWouldEvict"`
	Repeated          string      `json:"repeated"`
	Conditions        []string    `json:"conditions"`
	Unknown           []string    `json:"unknown"`
	Stalls            []podReason `json:"stalls"`

	HeldMost string `json:"heldMost"` // of an OOM kill, as the next two
	GrewMost string `json:"grewMost"`
	Kills    int64  `json:"kills"`

	rawUID string // as in the pods of the recording
}

// podReason is an entry of a list of pods.
type podReason struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
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

// maxListed bounds the pods of a list in a line. An agent writes ten.
const maxListed = 10

// printable makes the texts of a line printable.
func (l *line) printable() {
	l.rawUID = l.UID
	for _, text := range []*string{&l.Decision, &l.Check, &l.Signal, &l.UID, &l.Status, &l.LimitedBy, &l.Repeated} {
		*text = printable(*text, maxNote)
	}
	for _, name := range []*string{&l.Pod, &l.KubeletWouldEvict, &l.HeldMost, &l.GrewMost} {
		*name = printableName(*name)
	}
	l.Reason, l.Message = printable(l.Reason, maxText), printable(l.Message, maxText)
	for _, list := range []*[]podReason{&l.Ranking, &l.Failed, &l.Stalls} {
		*list = (*list)[:min(len(*list), maxListed)]
		for i, p := range *list {
			(*list)[i] = podReason{printableName(p.Pod), printable(p.Reason, maxNote)}
		}
	}
	for _, list := range []*[]string{&l.Conditions, &l.Unknown} {
		*list = (*list)[:min(len(*list), maxListed)]
		for i, text := range *list {
			(*list)[i] = printable(text, maxNote)
		}
	}
}

// decision is a line of the decision log, or several equal ones.
type decision struct {
	at, last time.Time
	verb     string
	check    string
	signal   string
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
	switch l.Decision {
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
			r.refusals[l.Decision]++
		}
	}
	if last := r.decisions.latest(); last != nil {
		if x := *last; x.verb == l.Decision && x.signal == l.Signal && x.pod == l.Pod && (l.Repeated != "" || l.Decision == wouldVerb) {
			x.repeats++
			x.last, x.text = t, l.text()
			return
		}
	}
	r.decisions.add(&decision{at: t, last: t, verb: l.Decision, check: l.Check, signal: l.Signal, pod: l.Pod, text: l.text()})
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
	if l.Freed != nil {
		if s, err := signals.Parse(l.Signal); err == nil {
			parts = append(parts, amount(signals.Amount(*l.Freed), s.Definition().Unit)+" more available")
		}
	}
	if l.Status == "pending" {
		parts = append(parts, "its status was not reported yet")
	}
	return strings.Join(parts, ", ")
}
