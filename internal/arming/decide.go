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

// Reasons of an agent that was stopped on its node. No setting in the cluster overrides them.
const (
	reasonFile     = "the disarm file exists"
	reasonHidden   = "the disarm file cannot be read"
	reasonSignaled = "disarmed by a signal until the next restart"
)

// IsLocal reports whether a reason is that of a stop on the node.
func IsLocal(reason string) bool {
	return reason == reasonFile || reason == reasonHidden || reason == reasonSignaled
}

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
	reason func(*Inputs) string
}{
	{CleaningUp, cleansUp},
	{Disarmed, localStop},
	{Disarmed, sourceStops},
	{Disarmed, hasCleanedUp},
	{Armed, flagActs},
	{Disarmed, refuses},
	{Armed, sourceArms},
}

// Decide returns the state that follows from the inputs.
func (w *Inputs) Decide() Verdict {
	for _, r := range rules {
		if reason := r.reason(w); reason != "" {
			return Verdict{r.state, reason}
		}
	}
	return Verdict{Disarmed, "dryRun is true, and neither the ConfigMap nor the Node is set to armed"}
}

func cleansUp(w *Inputs) string {
	reason := w.setBy(Cleanup)
	if w.Departing {
		reason = "the agent's DaemonSet is gone"
	}
	if reason != "" && w.CleanedUp {
		return CleanedUp
	}
	return reason
}

func localStop(w *Inputs) string {
	switch {
	case w.File == Present:
		return reasonFile
	case w.File == Hidden:
		return reasonHidden
	case w.Signaled:
		return reasonSignaled
	}
	return ""
}

func sourceStops(w *Inputs) string {
	if reason := w.setBy(Disarm); reason != "" {
		return reason
	}
	return w.setBy(Unreadable)
}

func hasCleanedUp(w *Inputs) string {
	if w.CleanedUp {
		return CleanedUp
	}
	return ""
}

// flagActs arms an agent that was started with dryRun false, with or without a setting.
func flagActs(w *Inputs) string {
	switch reason := w.setBy(Arm); {
	case w.DryRun:
		return ""
	case reason != "":
		return reason
	}
	return "started with dryRun false"
}

func refuses(w *Inputs) string {
	if w.setBy(Arm) == "" {
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

func sourceArms(w *Inputs) string { return w.setBy(Arm) }

// setBy returns the source of a setting, or an empty string if no source has it.
func (w *Inputs) setBy(want Setting) string {
	for _, v := range w.sources() {
		if v.setting == want {
			return v.String()
		}
	}
	return ""
}
