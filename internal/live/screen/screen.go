package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/internal/live"
)

// Sort is the order of pods.
type Sort uint8

// The orders.
const (
	ByMemory Sort = iota
	AboveRequest
	ByGrowth
	ByName
	sorts
)

// Next returns the order after this one.
func (s Sort) Next() Sort { return (s + 1) % sorts }

func (s Sort) String() string {
	return [...]string{"memory", "memory above the request", "growth", "name"}[s%sorts]
}

// Screen is what a text shows. The zero values of its settings are those of an output other than a terminal.
type Screen struct {
	State *live.State // nil: none yet
	Width int         // in columns
	// Height is the number of lines; 0: as many as there are.
	Height int
	Colour bool
	Sort   Sort
	Offset int // number of pods above the first shown one
	Help   bool
	// Message is about the connection: empty while it is there.
	Message string
	// Keys: the last line names the keys.
	Keys bool
}

// Bounds of a text.
const (
	minWidth = 20
	// overdue is the time after which a check that is due is overdue. A recording is a moment behind its agent.
	overdue = 2 * time.Second
	// shownPods is the number of pods in a text of any height.
	shownPods = 20
)

// style is how a line looks with colours.
type style string

const (
	plain   style = ""
	heading style = "1"
	alarm   style = "1;31"
	caution style = "33"
	faint   style = "2"
)

// line is a line of a text.
type line struct {
	text  string
	style style
}

// plainWidth is the width of a text for other outputs than a terminal, in columns.
const plainWidth = 120

// Plain returns the text of a state for other outputs than a terminal.
func Plain(state *live.State) string {
	s := Screen{State: state, Width: plainWidth}
	return s.Text()
}

// Text returns the text, with a newline behind each line but the last one of a terminal.
func (s *Screen) Text() string {
	width := max(s.Width, minWidth)
	var b strings.Builder
	for i, l := range s.lines(width) {
		if i > 0 {
			b.WriteByte('\n')
		}
		text := strings.TrimRight(cut(l.text, width), " ")
		if s.Colour && l.style != plain && text != "" {
			text = "\x1b[" + string(l.style) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	if s.Height == 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// lines returns the lines of the text, not more than the height.
func (s *Screen) lines(width int) []line {
	var all []line
	switch {
	case s.Help:
		all = helpLines()
	case s.State == nil:
		all = []line{{cmp.Or(s.Message, "Waiting for the state of the node ..."), plain}}
	default:
		all = s.stateLines(width)
	}
	if s.Height == 0 {
		return all
	}
	foot := s.foot(width)
	room := max(s.Height-len(foot), 0)
	all = all[:min(len(all), room)]
	for len(all) < room {
		all = append(all, line{})
	}
	return append(all, foot[:min(len(foot), s.Height)]...)
}

// foot returns the last lines of a terminal.
func (s *Screen) foot(width int) (all []line) {
	if s.Message != "" && (s.State != nil || s.Help) {
		all = wrap(s.Message, width, "", alarm)
	}
	if s.Keys {
		all = append(all, line{fmt.Sprintf("q quit  s sort: %s  up/down scroll  ? help", s.Sort), faint})
	}
	return all
}

func helpLines() []line {
	return []line{
		{"Keys", heading},
		{"  q, ctrl-c     quit", plain},
		{"  up, down      scroll pods; also k, j", plain},
		{"  pgup, pgdown  scroll ten pods", plain},
		{"  s             change the order of pods", plain},
		{"  ?             this help", plain},
		{"", plain},
		{"Signals", heading},
		{"  bar       available amount, up to four times the threshold (⊖)", plain},
		{"  MARGIN    available amount above the threshold", plain},
		{"  CHANGE    change of the available amount", plain},
		{"  EMPTY IN  time until nothing is available at this rate", plain},
		{"", plain},
		{"Next eviction", heading},
		{"  The first pod that may be evicted and would help, for a threshold that is met.", plain},
		{"  Otherwise as if that of memory, or a nearer one, were just met. Limits on", plain},
		{"  evictions are not considered.", plain},
	}
}

// stateLines returns the lines of a state. If the height is not enough, parts are shortened: first decisions, then the
// ranking, then pods, and then signals.
func (s *Screen) stateLines(width int) []line {
	l := s.layout(width)
	return join(l.head, l.notes, l.signals, l.next, s.pods(width, l.pods), l.decisions)
}

// layout has the parts of a state in their shortened form.
type layout struct {
	head, notes, signals, next, decisions []line
	pods                                  int // the number of shown ones
}

func (s *Screen) layout(width int) layout {
	head, signals := s.head(width), s.signals(width)
	next, decisions := s.next(width), s.decisions(width)
	if s.Height == 0 {
		return layout{head, s.notes(width), signals, next, decisions, shownPods}
	}
	room := s.Height - len(s.foot(width)) - len(head) - len(signals) - 1 // and an empty line above the signals
	const fewPods, fewNext, fewDecisions = 5, 2, 3                       // with their headings
	notes := s.notes(width)
	if len(notes) > 0 {
		room -= len(notes) + 1
	}
	decisions = shorten(decisions, max(room-3-len(next)-fewPods, min(fewDecisions, room-3-fewNext-fewPods)))
	next = shorten(next, max(room-3-len(decisions)-fewPods, fewNext))
	return layout{head, notes, signals, next, decisions, max(room-3-len(next)-len(decisions)-2, 1)} // two lines are headings
}

func shorten(lines []line, most int) []line {
	if most < 2 { // a heading alone says nothing
		return nil
	}
	return lines[:min(len(lines), most)]
}

// join joins parts with an empty line between them.
func join(parts ...[]line) (all []line) {
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if len(all) > 0 {
			all = append(all, line{})
		}
		all = append(all, part...)
	}
	return all
}

// head returns the node with its agent and its checks.
func (s *Screen) head(width int) []line {
	st := s.State
	parts := []string{cmp.Or(st.Node, "unknown node"), "agent " + cmp.Or(st.Version, "unknown"), cmp.Or(st.Arming, "arming unknown")}
	if len(st.Conditions) > 0 {
		parts = append(parts, strings.Join(st.Conditions, ", "))
	} else {
		parts = append(parts, "no pressure")
	}
	first := line{strings.Join(parts, "  "), heading}
	if len(st.Conditions) > 0 {
		first.style = alarm
	}
	all := []line{first}
	if c := st.Check; c != nil {
		text := fmt.Sprintf("%s check %s ago", c.Kind, age(st.Time.Sub(c.Time)))
		if c.Interval > 0 && (c.NextPeriodic.IsZero() || st.Time.Sub(c.NextPeriodic) < overdue) {
			text += fmt.Sprintf(", the next within %s", duration(live.Millis(c.Interval)))
		}
		switch late := st.Time.Sub(c.NextPeriodic); {
		case c.NextPeriodic.IsZero():
		case late >= overdue:
			text += fmt.Sprintf(", a periodic one overdue by %s", age(late))
		default:
			text += fmt.Sprintf(", a periodic one in %s", age(-late))
		}
		all = append(all, wrap(text, width, "", plain)...)
	}
	return all
}

// notes returns the notes of the state.
func (s *Screen) notes(width int) (all []line) {
	for _, n := range s.State.Notes {
		all = append(all, wrap(n, width, "", caution)...)
	}
	return all
}

// next returns the pod that would be evicted, and the first places of the ranking.
func (s *Screen) next(width int) []line {
	n := s.State.Next
	if n == nil {
		return []line{{"NEXT EVICTION", heading}, {"not known", plain}}
	}
	what, style := fmt.Sprintf("NEXT EVICTION, if %s were just met", n.Configured), heading
	switch {
	case n.InGrace:
		what, style = fmt.Sprintf("NEXT EVICTION, after the grace period of %s", n.Configured), caution
	case n.Met:
		what, style = fmt.Sprintf("NEXT EVICTION, since %s is met", n.Configured), alarm
	}
	all := wrap(what, width, "", style)
	if n.Pod == "" {
		all = append(all, wrap("none: "+n.Reason, width, "  ", plain)...)
	} else {
		all = append(all, wrap(n.Pod+": "+n.Reason, width, "  ", plain)...)
	}
	for _, more := range []string{n.Instead, n.Approximate} {
		if more != "" && more != n.Reason {
			all = append(all, wrap(more, width, "  ", faint)...)
		}
	}
	for _, p := range n.Ranking {
		if p.Pod != n.Pod && p.Passed {
			all = append(all, wrap(fmt.Sprintf("%d. %s: %s", p.Place, p.Pod, p.Reason), width, "  ", faint)...)
		}
	}
	return all
}

// decisions returns the last lines of the decision log.
func (s *Screen) decisions(width int) []line {
	all := []line{{"LAST DECISIONS", heading}}
	for _, d := range s.State.Decisions {
		text := strings.Join(slices.DeleteFunc([]string{age(s.State.Time.Sub(d.Time)) + " ago", d.Decision, d.Pod, d.Subject, d.Reason}, func(t string) bool { return t == "" }), "  ")
		if s.Height > 0 { // more decisions matter more than their ends
			text = cut(text, width)
		}
		all = append(all, wrap(text, width, "", plain)...)
	}
	if len(all) == 1 {
		all = append(all, line{"none in the newest part of the recording", faint})
	}
	return all
}

// cut returns the first columns of a text.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	if width <= 3 {
		return string(runes[:max(width, 0)])
	}
	return string(runes[:width-3]) + "..."
}

// wrap returns the lines of a text, at most three. All but the first are indented by two columns more.
func wrap(text string, width int, indent string, of style) (all []line) {
	const most = 3
	if utf8.RuneCountInString(indent)+utf8.RuneCountInString(text) <= width {
		return []line{{indent + text, of}}
	}
	current := indent
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > width && len(all) < most-1 {
			all = append(all, line{current, of})
			current, empty = indent+"  ", true
		}
		if !empty {
			current += " "
		}
		current, empty = current+word, false
	}
	return append(all, line{cut(current, width), of})
}

// age formats a time that has passed, in seconds at least.
func age(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	if d < time.Hour {
		return d.String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// duration formats a time with two to four digits.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
