package arming

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Word is what somebody says.
type Word uint8

// The words. Silence is that nobody says any.
const (
	Silence Word = iota
	Arm
	Disarm
	Leave
	Unreadable
)

// texts are how the words are written, in annotations and in the ConfigMap.
var texts = map[string]Word{"": Silence, "armed": Arm, "disarmed": Disarm, "leaving": Leave}

// ParseWord reads a word; spaces around it do not count. Whatever is none is
// [Unreadable].
func ParseWord(text string) Word {
	if w, known := texts[strings.TrimSpace(text)]; known {
		return w
	}
	return Unreadable
}

// String is how the word is written.
func (w Word) String() string {
	for text, word := range texts {
		if word == w {
			return text
		}
	}
	return "unreadable"
}

// A Voice is one of those in the cluster who say words, with what it said last.
type Voice struct {
	// Word as it was written.
	Word string `json:"word,omitempty"`
	// Accepted are codes of findings, with commas, in spite of which an agent is
	// to arm itself.
	Accepted string `json:"accepted,omitempty"`
}

// Findings are the doctor's.
type Findings struct {
	// Known: the doctor has looked, and has come to an end.
	Known bool `json:"known,omitempty"`
	// Errors are the codes of findings of severity error.
	Errors []string `json:"errors,omitempty"`
}

// A Memory is what has to survive a restart of the agent while the API server is
// away.
type Memory struct {
	All      Voice    `json:"all"`  // for all nodes: the ConfigMap
	Node     Voice    `json:"node"` // for this one: its annotations
	Findings Findings `json:"findings"`
	// Acted: the agent was armed, and what it wrote to the cluster may stand
	// there.
	Acted bool `json:"acted,omitempty"`
}

// A File is what a look at the disarm file came to.
type File uint8

// What a look comes to. Hidden is that it can not be told whether it is there.
const (
	Absent File = iota
	Present
	Hidden
)

// Words are all that is said at one moment.
type Words struct {
	Memory
	File     File
	Signaled bool // told to disarm by a signal, and the file could not be made
	DryRun   bool // the flag
	// Departing: the DaemonSet is gone, and this agent with it.
	Departing bool
	// Left: all was taken back already. Somebody has to say [Arm] anew before the
	// agent acts again.
	Left bool
}

// Hear takes over what the cluster says. One that says [Arm] and did not before
// calls an agent back that has left.
func (w *Words) Hear(all, node Voice) {
	for _, v := range []struct{ was, is Voice }{{w.All, all}, {w.Node, node}} {
		if ParseWord(v.was.Word) != Arm && ParseWord(v.is.Word) == Arm {
			w.Left = false
		}
	}
	w.All, w.Node = all, node
}

// Unaccepted are the findings that speak against arming, each once, in order.
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

// Codes returns the codes of a list of accepted findings, which stand between
// commas or white space.
func Codes(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// voices are those in the cluster, and how they are called.
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

// maxQuote bounds how much of a word that can not be read is told.
const maxQuote = 40

func (v *voice) String() string {
	if v.word == Unreadable {
		return fmt.Sprintf("%s says %.*q, which is no word", v.who, maxQuote, v.text)
	}
	return v.who + " says " + v.word.String()
}
