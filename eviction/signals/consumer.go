package signals

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Consumer is a consumer of a resource of the node outside of pods, or all pods together.
type Consumer struct {
	Name   string       `json:"name"`
	Kind   ConsumerKind `json:"kind"`
	Amount Amount       `json:"amount"` // in the unit of the signal
	// Pod is a pod, namespace/name, that mounts the directory, and Pods their number if there are
	// several. Which of them wrote is not known.
	Pod  string `json:"pod,omitempty"`
	Pods int    `json:"pods,omitempty"`
	// Incomplete is why the amount may be larger; empty otherwise.
	Incomplete string `json:"incomplete,omitempty"`
}

// Text returns the consumer with its amount in a unit, in words. Bytes are rounded down to 1Mi.
func (c *Consumer) Text(unit Unit) string {
	amount, least, names := c.Amount, "", [...]string{UnitInodes: " inodes", UnitPIDs: " PIDs"}
	if unit == UnitBytes && amount >= 1<<20 {
		amount -= amount % (1 << 20)
	}
	if c.Incomplete != "" {
		least = "at least "
	}
	return c.Name + c.mounts() + " " + least + Format(amount, unit) + names[unit]
}

// mounts names the pods that mount a directory.
func (c *Consumer) mounts() string {
	switch {
	case c.Pod == "":
		return ""
	case c.Pods > 1:
		return fmt.Sprintf(" (mounted by %s and %d more)", c.Pod, c.Pods-1)
	}
	return " (mounted by " + c.Pod + ")"
}

// ConsumerKind is a kind of consumer.
type ConsumerKind string

// The kinds of consumers.
const (
	ConsumerPods        ConsumerKind = "pods"        // all pods together
	ConsumerCgroup      ConsumerKind = "cgroup"      // beside that of the pods
	ConsumerKernel      ConsumerKind = "kernel"      // memory of the kernel, and files in memory
	ConsumerProcesses   ConsumerKind = "processes"   // in none of the listed cgroups
	ConsumerHostPath    ConsumerKind = "hostPath"    // a directory that pods mount
	ConsumerDirectory   ConsumerKind = "directory"   // a directory of the node
	ConsumerImages      ConsumerKind = "images"      // of the container runtime
	ConsumerUnaccounted ConsumerKind = "unaccounted" // used, and part of no other consumer
)

// Consumption is the consumers of one resource.
type Consumption struct {
	Largest    []Consumer // the largest first, at most MaxConsumers
	Unmeasured []string   // what was not measured, each with its cause; at most MaxConsumers
}

// MaxConsumers is the maximum number of consumers in a consumption.
const MaxConsumers = 10

// namedConsumers is the number of the largest consumers with an order and a growth that matter.
const namedConsumers = 3

// DiffersFrom reports whether one of the three largest consumers is another one than before, or has
// grown by half.
func (c *Consumption) DiffersFrom(before *Consumption) bool {
	if len(before.Largest) < namedConsumers && len(before.Largest) < len(c.Largest) {
		return true
	}
	for i := range c.Largest[:min(len(c.Largest), namedConsumers)] {
		now, was := &c.Largest[i], &before.Largest[i]
		if now.Name != was.Name || now.Kind != was.Kind || now.Amount > was.Amount.Plus(was.Amount/2) {
			return true
		}
	}
	return false
}

// maxName is the maximum length of a consumer's name in bytes. A path may have 4 KiB.
const maxName = 128

// PrintableName returns a name for logs and terminals: without control characters and other
// characters that are not printed, and with a mark in place of its middle if it is long.
func PrintableName(name string) string {
	return beginAndEnd(Printable(beginAndEnd(name, 4*maxName)), maxName) // a long name is not copied as a whole
}

// Printable returns a text with a question mark in place of each control character, and of every other
// character that is not printed.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// beginAndEnd returns the text, or its beginning and its end with a mark between.
func beginAndEnd(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const mark = "..."
	half := (most - len(mark)) / 2
	begin, end := half, len(text)-half
	for begin > 0 && !utf8.RuneStart(text[begin]) {
		begin--
	}
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end++
	}
	return text[:begin] + mark + text[end:]
}

// PrintableText returns a text of another program as [PrintableName] does, of at most most bytes.
func PrintableText(text string, most int) string {
	return beginAndEnd(Printable(beginAndEnd(text, 4*most)), most)
}

// maxLine is the maximum length of a line of a message in bytes.
const maxLine = 4 << 10

// PrintableLines returns a message for a terminal, with each of its lines as [PrintableText] returns it. An error can
// contain any text of a file or of the API server. A tab is replaced by spaces: the suggestions of a misspelt command
// begin with one.
func PrintableLines(message string) string {
	lines := strings.Split(strings.ReplaceAll(message, "\t", "    "), "\n")
	for i, line := range lines {
		lines[i] = PrintableText(line, maxLine)
	}
	return strings.Join(lines, "\n")
}
