package screen

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/live"
)

// mark is the load line of a ship, on which the available amount floats.
const mark = "⊖"

// Widths of the forms of the table of signals.
const (
	narrow  = 76 // below, each signal has two lines
	wideBar = 28 // the maximum width of a bar
	minBar  = 8
)

// signalColumns are the widths of the columns of signals, without the bar.
var signalColumns = []column{{"SIGNAL", 27, false}, {"AVAILABLE", 10, true}, {"THRESHOLD", 12, true}, {"MARGIN", 9, true}, {"CHANGE", 10, true}, {"EMPTY IN", 10, true}}

// shortColumns are those where 80 columns must be enough.
var shortColumns = []column{{"SIGNAL", 26, false}, {"AVAIL", 7, true}, {"THRESHOLD", 10, true}, {"MARGIN", 7, true}, {"CHANGE", 9, true}, {"EMPTY IN", 9, true}}

// column is a column of a table.
type column struct {
	name  string
	width int
	right bool
}

// row returns cells in the widths of columns.
func row(columns []column, cells []string) string {
	var b strings.Builder
	for i, c := range columns {
		text := cut(cells[i], c.width)
		space := strings.Repeat(" ", c.width-utf8.RuneCountInString(text))
		if c.right {
			text = space + text
		} else if i < len(columns)-1 {
			text += space
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}

func headings(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return row(columns, names)
}

// width returns the width of a row.
func widthOf(columns []column) (n int) {
	for _, c := range columns {
		n += c.width + 1
	}
	return n - 1
}

// signals returns the table of signals.
func (s *Screen) signals(width int) []line {
	if len(s.State.Signals) == 0 {
		return nil
	}
	if width < narrow {
		return s.narrowSignals(width)
	}
	columns := signalColumns
	bar := width - widthOf(columns) - 1
	if bar < minBar {
		columns = shortColumns
		bar = width - widthOf(columns) - 1
	}
	bar = min(bar, wideBar)
	all := []line{{headings(columns), heading}}
	for i := range s.State.Signals {
		g := &s.State.Signals[i]
		text := row(columns, signalCells(g))
		if bar >= minBar-4 && g.Available != nil {
			text += strings.Repeat(" ", max(widthOf(columns)-utf8.RuneCountInString(text), 0)) + " " + gauge(g, bar)
		}
		all = append(all, line{text, styleOf(g)})
	}
	return all
}

// narrowSignals returns two lines for each signal, or one where they would take more than half of the height.
func (s *Screen) narrowSignals(width int) (all []line) {
	short := s.Height > 0 && 4*len(s.State.Signals) > s.Height
	for i := range s.State.Signals {
		g := &s.State.Signals[i]
		cells := signalCells(g)
		columns := []column{{"", width - minBar - 1, false}, {"", minBar, false}}
		if short {
			const amount = 7
			columns = []column{{"", width - minBar - amount - 2, false}, {"", amount, true}, {"", minBar, false}}
			all = append(all, line{row(columns, []string{cells[0], cells[1], gauge(g, minBar)}), styleOf(g)})
			continue
		}
		details := slices.DeleteFunc([]string{cells[1], mark + " " + cells[2], cells[4], cells[5]}, func(t string) bool { return t == "-" })
		all = append(all, line{row(columns, []string{cells[0], gauge(g, minBar)}), styleOf(g)}, line{"  " + strings.Join(details, "  "), styleOf(g)})
	}
	return all
}

// styleOf returns the style of a signal, by its distance to the threshold.
func styleOf(g *live.Signal) style {
	switch {
	case g.Available == nil:
		return caution
	case g.Below && g.Kind == "hard":
		return alarm
	case g.Below, g.At != nil && *g.Available/2 < *g.At:
		return caution
	}
	return plain
}

// signalCells returns the cells of a signal, without the bar.
func signalCells(g *live.Signal) []string {
	if g.Available == nil {
		return []string{g.Signal, "unknown", g.Kind, "-", "-", "-"}
	}
	unit := unitOf(g.Signal)
	kind := ""
	if g.Kind != "hard" {
		kind = " " + g.Kind
	}
	cells := []string{g.Signal, unit.Short(signals.Amount(*g.Available)), "-", "-", "-", "-"}
	if g.At != nil {
		cells[2] = unit.Short(signals.Amount(*g.At)) + kind
	}
	if g.Margin != nil {
		cells[3] = unit.Short(signals.Amount(*g.Margin))
	}
	if g.Rate != nil {
		cells[4] = change(-max(*g.Rate, -math.MaxInt64), unit)
	}
	if g.Exhaustion != nil {
		cells[5] = lasts(live.Millis(*g.Exhaustion))
	}
	return cells
}

// maxLasts is the longest shown time to exhaustion.
const maxLasts = 24 * time.Hour

func lasts(d time.Duration) string {
	if d > maxLasts {
		return ">1d"
	}
	return duration(d)
}

// gauge returns the available amount as a bar, from nothing to four times the threshold or the capacity, with the mark
// at the threshold.
func gauge(g *live.Signal, width int) string {
	const scale = 4
	if g.Available == nil || g.At == nil || *g.At <= 0 || width < minBar-4 {
		return ""
	}
	whole := float64(*g.At) * scale
	if g.Capacity != nil && *g.Capacity > *g.At {
		whole = math.Min(whole, float64(*g.Capacity))
	}
	cells := func(n int64) int { return int(math.Max(0, math.Min(float64(n)/whole, 1)) * float64(width)) }
	filled, at := cells(*g.Available), min(cells(*g.At), width-1)
	if g.Below {
		filled = min(filled, at)
	} else {
		filled = max(filled, at+1)
	}
	bar := []rune(strings.Repeat("=", filled) + strings.Repeat(".", width-filled))
	if float64(*g.Available) > whole {
		bar[width-1] = '>'
	}
	bar[at] = []rune(mark)[0]
	return string(bar)
}

// podColumns are the columns of pods behind their names.
var podColumns = []column{{"MEMORY", 8, true}, {"REQUEST", 8, true}, {"GROWTH", 10, true}, {"PRIORITY", 11, true}, {"PROTECTED", 24, false}}

// pods returns the table of pods, with at most most of them.
func (s *Screen) pods(width, most int) []line {
	pods := s.sorted()
	if len(pods) == 0 {
		return nil
	}
	offset := max(min(s.Offset, len(pods)-most), 0)
	shown := pods[offset:min(offset+most, len(pods))]
	columns := podColumns
	for len(columns) > 1 && width-widthOf(columns)-1 < max(width*2/5, minWidth) {
		columns = columns[:len(columns)-1]
	}
	name := column{"POD", min(width-widthOf(columns)-1, 60), false}
	columns = append([]column{name}, columns...)
	title := fmt.Sprintf("PODS BY %s: %d to %d of %d", strings.ToUpper(s.Sort.String()), offset+1, offset+len(shown), s.State.PodCount)
	if !s.State.Measured.IsZero() {
		title += fmt.Sprintf(", %s ago", age(s.State.Time.Sub(s.State.Measured)))
	}
	all := []line{{title, heading}, {headings(columns), heading}}
	for i := range shown {
		all = append(all, line{row(columns, podCells(&shown[i])[:len(columns)]), plain})
	}
	return all
}

// MaxOffset returns the maximum number of pods above the first one, with which the last pod is the last one shown.
func (s *Screen) MaxOffset() int {
	if s.State == nil {
		return 0
	}
	return max(len(s.State.Pods)-s.layout(max(s.Width, minWidth)).pods, 0)
}

func podCells(p *live.Pod) []string {
	cells := []string{p.Pod, "unknown", "-", "-", strconv.Itoa(int(p.Priority)), p.Protection}
	if p.Memory != nil {
		cells[1] = signals.UnitBytes.Short(signals.Amount(*p.Memory))
	}
	if p.Request > 0 {
		cells[2] = signals.UnitBytes.Short(signals.Amount(p.Request))
	}
	if p.Growth != nil {
		cells[3] = change(*p.Growth, signals.UnitBytes)
	}
	return cells
}

// sorted returns the pods in their order.
func (s *Screen) sorted() []live.Pod {
	known := func(n *int64) int64 {
		if n == nil {
			return math.MinInt64
		}
		return *n
	}
	above := func(p *live.Pod) float64 { return float64(known(p.Memory)) - float64(p.Request) }
	pods := slices.Clone(s.State.Pods)
	slices.SortStableFunc(pods, func(a, b live.Pod) int {
		switch s.Sort {
		case AboveRequest:
			return -cmp.Compare(above(&a), above(&b))
		case ByGrowth:
			return -cmp.Compare(known(a.Growth), known(b.Growth))
		case ByName:
			return cmp.Compare(a.Pod, b.Pod)
		}
		return -cmp.Compare(known(a.Memory), known(b.Memory))
	})
	return pods
}

// unitOf returns the unit of a signal; that of bytes for one of a later version.
func unitOf(name string) signals.Unit {
	s, err := signals.Parse(name)
	if err != nil {
		return signals.UnitBytes
	}
	return s.Definition().Unit
}

// change returns a change per second, with its sign.
func change(n int64, unit signals.Unit) string {
	if n == 0 {
		return "0/s"
	}
	text := unit.Short(signals.Amount(n)) + "/s"
	if n > 0 {
		text = "+" + text
	}
	return text
}
