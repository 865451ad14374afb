package arming

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Word is an arming setting.
type Word uint8

// The settings. Silence means that there is none.
const (
	Silence Word = iota
	Arm
	Disarm
	Cleanup
	Unreadable
)

// texts are the settings as written in annotations and in the ConfigMap.
var texts = map[string]Word{"": Silence, "armed": Arm, "disarmed": Disarm, "cleanup": Cleanup}

// ParseWord parses a setting and ignores spaces around it. An unrecognised text is [Unreadable].
func ParseWord(text string) Word {
	if w, known := texts[strings.TrimSpace(text)]; known {
		return w
	}
	return Unreadable
}

// String returns the text of the setting.
func (w Word) String() string {
	for text, word := range texts {
		if word == w {
			return text
		}
	}
	return "unreadable"
}

// Voice is the latest content of one source of settings in the cluster.
type Voice struct {
	// Word is the setting as written.
	Word string `json:"word,omitempty"`
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
	All      Voice    `json:"all"`  // for all nodes: the ConfigMap
	Node     Voice    `json:"node"` // for this node: its annotations
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

// Words are all inputs of a decision at one time.
type Words struct {
	Memory
	File     File
	Signaled bool // disarmed by a signal, and the file could not be created
	DryRun   bool // the flag
	// Departing reports that the DaemonSet, and thereby this agent, is being deleted.
	Departing bool
	// CleanedUp reports that everything was withdrawn. The agent acts again only after a new [Arm].
	CleanedUp bool
}

// Hear stores the settings of the cluster. A change of a source to [Arm] resets CleanedUp.
func (w *Words) Hear(all, node Voice) {
	for _, v := range []struct{ was, is Voice }{{w.All, all}, {w.Node, node}} {
		if ParseWord(v.was.Word) != Arm && ParseWord(v.is.Word) == Arm {
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

// voices returns the sources in the cluster with their names.
func (w *Words) voices() [2]voice {
	return [2]voice{
		{"the ConfigMap " + ConfigMap, w.All.Word, ParseWord(w.All.Word)},
		{"the Node's annotation", w.Node.Word, ParseWord(w.Node.Word)},
	}
}

type voice struct {
	who  string
	text string
	word Word
}

// maxQuote bounds the quoted length of an unrecognised setting, in characters.
const maxQuote = 40

func (v *voice) String() string {
	if v.word == Unreadable {
		return fmt.Sprintf("%s says %.*q, which is no word", v.who, maxQuote, v.text)
	}
	return v.who + " says " + v.word.String()
}
