package arming

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Setting is an arming setting.
type Setting uint8

// The settings. Unset means that there is none.
const (
	Unset Setting = iota
	Arm
	Disarm
	Cleanup
	Unreadable
)

// texts are the settings as written in annotations and in the ConfigMap.
var texts = map[string]Setting{"": Unset, "armed": Arm, "disarmed": Disarm, "cleanup": Cleanup}

// ParseSetting parses a setting and ignores spaces around it. An unrecognised text is [Unreadable].
func ParseSetting(text string) Setting {
	if s, known := texts[strings.TrimSpace(text)]; known {
		return s
	}
	return Unreadable
}

// String returns the text of the setting.
func (s Setting) String() string {
	for text, setting := range texts {
		if setting == s {
			return text
		}
	}
	return "unreadable"
}

// Source is the latest content of one source of settings in the cluster.
type Source struct {
	// Setting is the setting as written.
	Setting string `json:"setting,omitempty"`
	// Accepted are codes of findings, comma separated, that do not prevent arming.
	Accepted string `json:"accepted,omitempty"`
}

// Findings are the results of the doctor.
type Findings struct {
	// Known reports that an examination by the doctor was completed.
	Known bool `json:"known,omitempty"`
	// Errors are the codes of findings of severity error.
	Errors []string `json:"errors,omitempty"`
}

// Memory is the state that has to survive a restart of the agent without an API server.
type Memory struct {
	All      Source   `json:"all"`  // for all nodes: the ConfigMap
	Node     Source   `json:"node"` // for this node: its annotations
	Findings Findings `json:"findings"`
	// Acted reports that the agent was armed, so that its writes may remain in the cluster.
	Acted bool `json:"acted,omitempty"`
}

// File is the state of the disarm file.
type File uint8

// The states of the disarm file. Hidden means that its existence cannot be determined.
const (
	Absent File = iota
	Present
	Hidden
)

// Inputs are all inputs of a decision at one time.
type Inputs struct {
	Memory
	File     File
	Signaled bool // disarmed by a signal, and the file could not be created
	DryRun   bool // the flag
	// Departing reports that the DaemonSet, and thereby this agent, is being deleted.
	Departing bool
	// CleanedUp reports that everything was withdrawn. The agent acts again only after a new [Arm].
	CleanedUp bool
}

// Read stores the settings of the cluster. A change of a source to [Arm] resets CleanedUp.
func (w *Inputs) Read(all, node Source) {
	for _, v := range []struct{ was, is Source }{{w.All, all}, {w.Node, node}} {
		if ParseSetting(v.was.Setting) != Arm && ParseSetting(v.is.Setting) == Arm {
			w.CleanedUp = false
		}
	}
	w.All, w.Node = all, node
}

// Unaccepted returns the codes of the findings that prevent arming, sorted and without duplicates.
func (m *Memory) Unaccepted() []string {
	accepted := append(Codes(m.All.Accepted), Codes(m.Node.Accepted)...)
	var left []string
	for _, code := range m.Findings.Errors {
		if !slices.Contains(accepted, code) && !slices.Contains(left, code) {
			left = append(left, code)
		}
	}
	slices.Sort(left)
	return left
}

// Codes returns the codes of a list of accepted findings, separated by commas or white space.
func Codes(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// sources returns the sources in the cluster with their names.
func (w *Inputs) sources() [2]source {
	return [2]source{
		{"the ConfigMap " + ConfigMap, w.All.Setting, ParseSetting(w.All.Setting)},
		{"the Node's annotation", w.Node.Setting, ParseSetting(w.Node.Setting)},
	}
}

type source struct {
	name    string
	text    string
	setting Setting
}

// maxQuote bounds the quoted length of an unrecognised setting, in characters.
const maxQuote = 40

func (v *source) String() string {
	if v.setting == Unreadable {
		return fmt.Sprintf("%s is set to %.*q, which is no setting", v.name, maxQuote, v.text)
	}
	return v.name + " is set to " + v.setting.String()
}
