package clusterstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/output"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// List is the state of nodes. It implements [output.Document].
type List struct {
	output.Header
	Items []Row `json:"items"`

	now time.Time
}

// NewList returns the state of nodes at a time, those that need attention first.
func NewList(nodes []Node, now time.Time) *List {
	l := &List{output.NewHeader("NodeStatusList"), make([]Row, 0, len(nodes)), now}
	for i := range nodes {
		l.Items = append(l.Items, rowOf(&nodes[i], now))
	}
	slices.SortFunc(l.Items, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), output.Natural(a.Name, b.Name))
	})
	return l
}

// Names implements output.Document.
func (l *List) Names() (names []string) {
	for i := range l.Items {
		names = append(names, "node/"+l.Items[i].Name)
	}
	return names
}

// Table implements output.Document.
func (l *List) Table(wide bool) *output.Table {
	t := &output.Table{Columns: []string{"NODE", "AGENT", "SIGNAL", "CONDITION", "LAST EVICTION", "FINDINGS", "VERSION", "AGE"}, Summary: l.summary()}
	if wide {
		t.Columns[2] = "SIGNALS"
		t.Columns = append(t.Columns, "SEEN", "THRESHOLDS", "POD", "REASON")
	}
	for i := range l.Items {
		r := &l.Items[i]
		row := []output.Cell{
			{Text: r.Name}, r.agentCell(), r.signalCell(wide), r.conditionCell(), {Text: l.evictionText(r, wide)},
			warning(strings.Join(r.Findings, ",")), {Text: r.Version}, {Text: l.ago(r.Created)},
		}
		if wide {
			row = append(row, output.Cell{Text: l.ago(r.Heartbeat)}, output.Cell{Text: r.Thresholds}, output.Cell{Text: r.Pod}, output.Cell{Text: r.Reason})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Row) agentCell() output.Cell {
	levels := map[State]output.Level{Disarmed: output.Warning, Silent: output.Critical, Missing: output.Critical}
	return output.Cell{Text: string(r.Agent), Level: levels[r.Agent]}
}

func warning(text string) output.Cell { return output.Cell{Text: text, Level: output.Warning} }

func (r *Row) conditionCell() output.Cell {
	c := warning(strings.Join(r.Conditions, ","))
	if r.pressed() && r.Agent != Armed {
		c.Level = output.Critical
	}
	return c
}

// tighter compares readings for the cell of a row: hard thresholds that are met first, then the amount
// that is available in thresholds.
func tighter(a, b vitals.Reading) int {
	met := func(r *vitals.Reading) int {
		if r.Below() && !r.Soft {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(met(&a), met(&b)), cmp.Compare(ratio(&a), ratio(&b)))
}

// signalCell returns the tightest reading, or all of them.
func (r *Row) signalCell(all bool) output.Cell {
	if r.Agent == Silent {
		return output.Cell{Text: "unknown", Level: output.Warning}
	}
	if len(r.readings) == 0 {
		return output.Cell{}
	}
	tightest := slices.MinFunc(r.readings, tighter)
	c := output.Cell{Text: readingText(&tightest)}
	switch {
	case tightest.Below() && !tightest.Soft:
		c.Level = output.Critical
	case !tightest.Known || near(&tightest):
		c.Level = output.Warning
	}
	if all {
		texts := make([]string, len(r.readings))
		for i := range r.readings {
			texts[i] = readingText(&r.readings[i])
		}
		c.Text = strings.Join(texts, ", ")
	}
	return c
}

// readingText returns a reading such as "memory.available 83Mi < 100Mi".
func readingText(r *vitals.Reading) string {
	if !r.Known {
		return r.Signal.String() + " unknown"
	}
	unit, relation, kind := r.Signal.Definition().Unit, ">=", ""
	if r.Below() {
		relation = "<"
	}
	if r.Soft {
		kind = " (soft)"
	}
	return fmt.Sprintf("%s %s %s %s%s", r.Signal, amountText(r.Available, unit), relation, amountText(r.Threshold, unit), kind)
}

// amountText returns bytes in Mi, rounded down, and other units as they are.
func amountText(a signals.Amount, unit signals.Unit) string {
	if unit == signals.UnitBytes {
		return strconv.FormatInt(int64(a)>>20, 10) + "Mi"
	}
	return strconv.FormatInt(int64(a), 10)
}

func (l *List) evictionText(r *Row, wide bool) string {
	e := r.LastEviction
	if e == nil {
		return ""
	}
	text := l.ago(e.Time) + " " + e.Pod
	if wide {
		text += " (" + e.Cause + ")"
	}
	return text
}

// ago returns the time since then, and an empty text for the zero time.
func (l *List) ago(then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return output.Age(l.now.Sub(then))
}

// summary counts the nodes by the state of their agents.
func (l *List) summary() string {
	counts, pressed := map[State]int{}, 0
	for i := range l.Items {
		counts[l.Items[i].Agent]++
		if l.Items[i].pressed() {
			pressed++
		}
	}
	var parts []string
	for _, s := range []State{Armed, Disarmed, Silent, Missing} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	text := fmt.Sprintf("%d nodes", len(l.Items))
	if len(l.Items) == 1 {
		text = "1 node"
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	if pressed > 0 {
		text += fmt.Sprintf("; %d under pressure", pressed)
	}
	return text
}
