package arming

import "strings"

// Where words are said in the cluster.
const (
	// ConfigMap is the name of the one for all nodes, in the namespace of the
	// agents' leases.
	ConfigMap = "plimsoll-arming"
	// KeyAll is the key of its word, KeyAccept that of the accepted findings.
	KeyAll, KeyAccept = "all", "acceptFindings"
	// Annotation is the Node's word, AnnotationAccept its accepted findings.
	Annotation, AnnotationAccept = "plimsoll.dev/arming", "plimsoll.dev/accept-findings"
)

// A State is what an agent is.
type State uint8

// The states. A Leaving agent is disarmed, and takes back whatever it wrote.
const (
	Disarmed State = iota
	Armed
	Leaving
)

var states = [...]string{Disarmed: "disarmed", Armed: "armed", Leaving: "leaving"}

func (s State) String() string { return states[s] }

// HasLeft is the reason of an agent that has taken everything back.
const HasLeft = "left"

// Refusal begins the reason of an agent that was told to arm itself and does not.
const Refusal = "refused"

// A Verdict is a state, and why: one line for people, of at most a few hundred
// bytes.
type Verdict struct {
	State  State
	Reason string
}

// Refuses reports whether the agent was told to arm itself and does not, because
// of what the doctor has found or not looked at.
func (v Verdict) Refuses() bool { return strings.HasPrefix(v.Reason, Refusal) }

// rules are in the order of their strength: the first that has a reason decides.
var rules = []struct {
	state  State
	reason func(*Words) string
}{
	{Leaving, leaves},
	{Disarmed, localStop},
	{Disarmed, voiceStops},
	{Disarmed, hasLeft},
	{Armed, flagActs},
	{Disarmed, refuses},
	{Armed, voiceArms},
}

// Decide weighs the words.
func (w *Words) Decide() Verdict {
	for _, r := range rules {
		if reason := r.reason(w); reason != "" {
			return Verdict{r.state, reason}
		}
	}
	return Verdict{Disarmed, "dryRun is true, and neither the ConfigMap nor the Node says armed"}
}

func leaves(w *Words) string {
	reason := w.said(Leave)
	if w.Departing {
		reason = "the agent's DaemonSet is gone"
	}
	if reason != "" && w.Left {
		return HasLeft
	}
	return reason
}

func localStop(w *Words) string {
	switch {
	case w.File == Present:
		return "the disarm file is there"
	case w.File == Hidden:
		return "the disarm file can not be looked for"
	case w.Signaled:
		return "told by a signal, until a restart"
	}
	return ""
}

func voiceStops(w *Words) string {
	if reason := w.said(Disarm); reason != "" {
		return reason
	}
	return w.said(Unreadable)
}

func hasLeft(w *Words) string {
	if w.Left {
		return HasLeft
	}
	return ""
}

// flagActs: who was started to act does so, told or not.
func flagActs(w *Words) string {
	switch told := w.said(Arm); {
	case w.DryRun:
		return ""
	case told != "":
		return told
	}
	return "started with dryRun false"
}

func refuses(w *Words) string {
	if w.said(Arm) == "" {
		return ""
	}
	if !w.Findings.Known {
		return Refusal + ": the node is not examined yet"
	}
	if codes := w.Unaccepted(); len(codes) > 0 {
		return Refusal + ": " + strings.Join(codes, ", ")
	}
	return ""
}

func voiceArms(w *Words) string { return w.said(Arm) }

// said is who says a word, empty if nobody does.
func (w *Words) said(word Word) string {
	for _, v := range w.voices() {
		if v.word == word {
			return v.String()
		}
	}
	return ""
}
