package screen

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Columns is the width of the widest line.
const Columns = 80

// A Screen writes the demo's text. It is not safe for concurrent use.
type Screen struct {
	out       io.Writer
	colored   bool
	live      bool // out is a terminal: the bar is redrawn in place
	capacity  int64
	threshold int64
	open      bool // the cursor is at the end of a live bar
	begun     bool // a line with a bar exists, and it shows:
	drawn     int64
	drawnAt   time.Duration
	failed    error
}

// Options configure a Screen. Amounts are in bytes.
type Options struct {
	Colored   bool
	Live      bool
	Capacity  int64
	Threshold int64
}

// New returns a screen that writes to out.
func New(out io.Writer, o Options) *Screen {
	return &Screen{out: out, colored: o.Colored, live: o.Live, capacity: o.Capacity, threshold: o.Threshold}
}

// Err returns the first error of a write.
func (s *Screen) Err() error { return s.failed }

func (s *Screen) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.failed == nil {
		s.failed = err
	}
}

// End removes an unfinished line, for a message elsewhere.
func (s *Screen) End() { s.erase() }

// line writes a line of its own.
func (s *Screen) line(format string, args ...any) {
	s.erase()
	s.printf(format+"\n", args...)
}

// label returns the first word of a line.
func (s *Screen) label(word string) string { return s.paint(bold, fmt.Sprintf("%-5s", word)) + "  " }

// Node writes the line of the node, with the version of its cgroup.
func (s *Screen) Node(cgroup int) {
	s.line("%s%s of memory, a cgroup (v%d) on this machine", s.label("Node"), Mebibytes(s.capacity), cgroup)
}

// A Usage is the memory of a pod at the demo's start, in bytes.
type Usage struct {
	Pod  string
	Uses int64
}

// Pods writes the line of the node's pods.
func (s *Screen) Pods(pods []Usage) {
	var list []string
	for _, p := range pods {
		list = append(list, p.Pod+" "+Mebibytes(p.Uses))
	}
	s.line("%s%s", s.label("Pods"), strings.Join(list, ", "))
}

// Agent writes the line of the agent: the part of its command line that matters.
func (s *Screen) Agent() {
	s.line("%splimsoll agent --eviction-hard=memory.available<%s: the %s line", s.label("Agent"), Mebibytes(s.threshold), s.paint(bold, "⊖"))
}

// Leak writes the line of the pod that leaks.
func (s *Screen) Leak(pod string, rate int64) {
	s.line("%s%s, %s/s\n", s.label("Leak"), pod, Mebibytes(rate))
}

// Wait writes the reason for a crossed threshold without an eviction.
func (s *Screen) Wait(at time.Duration, d *Decision) {
	result := s.paint(yellow, "not imminent, no eviction yet")
	if d.Imminent() {
		result = s.paint(red, "imminent, to be confirmed")
	}
	s.line("%s%s %s: %s", clock(at), s.paint(bold, "⊖"), d.memory(), result)
}

// Failed writes the reason for an eviction that was due and did not happen.
func (s *Screen) Failed(at time.Duration, d *Decision) {
	s.line("%s%s %s: %s", clock(at), s.paint(red, "✗"), d.memory(), s.paint(red, "no pod could be evicted"))
	for _, f := range d.Failed {
		s.line("         %s: %s", f.Name, oneNotation(f.Reason))
	}
}

// Evicted writes the decision, and the ranking behind it.
func (s *Screen) Evicted(at time.Duration, d *Decision) {
	reason := "periodic check"
	if d.Early {
		reason = "imminent"
	}
	s.line("%s%s %s: %s", clock(at), s.paint(red, "✗"), d.memory(), s.paint(red, reason+", evict "+d.Pod))
}

// memory describes the memory of the node at a check.
func (d *Decision) memory() string {
	text := Mebibytes(d.Available) + " available"
	if d.Exhaustion == nil {
		return text + ", not falling"
	}
	return text + ", exhausted in " + short(*d.Exhaustion)
}

// short formats a duration with two or three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// Ranking writes the order in which pods are candidates, and the evicted one.
func (s *Screen) Ranking(d *Decision) {
	s.line("\n%s", s.paint(bold, "Ranking"))
	for i, p := range d.Ranking {
		mark, text := " ", fmt.Sprintf("%d. %-11s  %s", i+1, p.Name, oneNotation(p.Reason))
		if p.Name == d.Pod {
			mark, text = s.paint(red, "✗"), s.paint(red, text)
		}
		s.line("  %s %s", mark, text)
	}
}

// An Outcome is the end of the demo.
type Outcome struct {
	Decision  Decision
	RightPod  bool          // the leaking one was evicted
	Below     time.Duration // from the threshold until the pod was gone, zero if unknown
	Survivors []string
	Lost      []string // pods that ended besides the evicted one
	OOMKills  int64
}

// Outcome writes the outcome, a line for each claim.
func (s *Screen) Outcome(o *Outcome) {
	d := &o.Decision
	s.line("\n%s", s.paint(bold, "Outcome"))
	freed := ""
	if d.Freed != nil {
		freed = ", " + Mebibytes(*d.Freed) + " freed"
	}
	s.claim(o.RightPod, "%s evicted: %s gone %s after the check%s", d.Pod, processes(d.Processes), short(d.Exit), freed)
	s.claim(len(o.Lost) == 0, "still running: %s", strings.Join(o.Survivors, ", "))
	s.claim(o.OOMKills == 0, "OOM kills by the kernel: %d", o.OOMKills)
	switch {
	case o.Below <= 0:
	case d.Early:
		s.claim(true, "below the line for %s, evicted only once exhaustion was imminent", short(o.Below))
	default:
		s.claim(true, "below the line for %s", short(o.Below))
	}
}

// claim writes a line with a mark: whether it is as it has to be.
func (s *Screen) claim(holds bool, format string, args ...any) {
	mark := s.paint(green, "✓")
	if !holds {
		mark = s.paint(red, "✗")
	}
	s.line("  %s %s", mark, fmt.Sprintf(format, args...))
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
