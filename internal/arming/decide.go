package arming

import "strings"

// Locations of settings in the cluster.
const (
	// ConfigMap is the name of the ConfigMap for all nodes, in the namespace of the agents' leases.
	ConfigMap = "plimsoll-arming"
	// KeyAll is the key of its setting, KeyAccept that of the accepted findings.
	KeyAll, KeyAccept = "all", "acceptFindings"
	// Annotation is the annotation of a Node with its setting, AnnotationAccept that with its
	// accepted findings.
	Annotation, AnnotationAccept = "plimsoll.dev/arming", "plimsoll.dev/accept-findings"
)

// State is the arming state of an agent.
type State uint8

// The states. A cleaning-up agent is disarmed and withdraws everything that it wrote.
const (
	Disarmed State = iota
	Armed
	CleaningUp
)

var states = [...]string{Disarmed: "disarmed", Armed: "armed", CleaningUp: "cleanup"}

func (s State) String() string { return states[s] }

// CleanedUp is the reason of an agent that has withdrawn everything.
const CleanedUp = "cleaned-up"

// Refusal begins the reason of an agent that stays disarmed despite the setting [Arm].
const Refusal = "refused"

// Verdict is a state with its reason: one line for operators, of at most a few hundred bytes.
type Verdict struct {
	State  State
	Reason string
}

// Refuses reports whether the agent stays disarmed despite the setting [Arm], because of a finding
// or because the node was not examined.
func (v Verdict) Refuses() bool { return strings.HasPrefix(v.Reason, Refusal) }

// rules are in order of precedence: the first one with a reason decides.
var rules = []struct {
	state  State
	reason func(*Words) string
}{
	{CleaningUp, cleansUp},
	{Disarmed, localStop},
	{Disarmed, voiceStops},
	{Disarmed, hasCleanedUp},
	{Armed, flagActs},
	{Disarmed, refuses},
	{Armed, voiceArms},
}

// Decide returns the state that follows from the inputs.
func (w *Words) Decide() Verdict {
	for _, r := range rules {
		if reason := r.reason(w); reason != "" {
			return Verdict{r.state, reason}
		}
	}
	return Verdict{Disarmed, "dryRun is true, and neither the ConfigMap nor the Node says armed"}
}

func cleansUp(w *Words) string {
	reason := w.said(Cleanup)
	if w.Departing {
		reason = "the agent's DaemonSet is gone"
	}
	if reason != "" && w.CleanedUp {
		return CleanedUp
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

func hasCleanedUp(w *Words) string {
	if w.CleanedUp {
		return CleanedUp
	}
	return ""
}

// flagActs arms an agent that was started with dryRun false, with or without a setting.
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

// said returns the source of a setting, or an empty string if no source has it.
func (w *Words) said(word Word) string {
	for _, v := range w.voices() {
		if v.word == word {
			return v.String()
		}
	}
	return ""
}
