package clusterstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/natural"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// List is the state of nodes. It implements [document.Document].
type List struct {
	document.Header
	Items []Row `json:"items"`

	now time.Time
}

// NewList returns the state of nodes at a time, those that need attention first.
func NewList(nodes []Node, now time.Time) *List {
	l := &List{document.NewHeader("NodeStatusList"), make([]Row, 0, len(nodes)), now}
	for i := range nodes {
		l.Items = append(l.Items, rowOf(&nodes[i], now))
	}
	slices.SortFunc(l.Items, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), natural.Compare(a.Name, b.Name))
	})
	return l
}

// Nodes implements document.Document.
func (l *List) Nodes() (names []string) {
	for i := range l.Items {
		names = append(names, l.Items[i].Name)
	}
	return names
}

// Table implements document.Document.
func (l *List) Table(age func(time.Duration) string) *document.Table {
	t := &document.Table{Summary: l.summary(), Columns: []document.Column{
		{Name: "NODE"}, {Name: "AGENT"}, {Name: "SIGNAL"}, {Name: "CONDITION"}, {Name: "LAST EVICTION"}, {Name: "FINDINGS"}, {Name: "VERSION"}, {Name: "AGE"},
		{Name: "SEEN", Wide: true}, {Name: "CAUSE", Wide: true}, {Name: "THRESHOLDS", Wide: true}, {Name: "POD", Wide: true}, {Name: "REASON", Wide: true}, {Name: "SIGNALS", Wide: true},
	}}
	ago := func(then time.Time) string {
		if then.IsZero() {
			return ""
		}
		return age(max(l.now.Sub(then), 0))
	}
	for i := range l.Items {
		r := &l.Items[i]
		eviction, cause := "", ""
		if e := r.LastEviction; e != nil {
			eviction, cause = fmt.Sprintf("%s (%s ago)", e.Pod, ago(e.Time)), e.Cause
		}
		t.Rows = append(t.Rows, []string{
			r.Name, string(r.Agent), r.tightest(), strings.Join(r.Conditions, ","), eviction, strings.Join(r.Findings, ","), r.Version, ago(r.Created),
			ago(r.Heartbeat), cause, r.Thresholds, r.Pod, r.Reason, r.signals(),
		})
	}
	return t
}

// tighter compares readings for the cell of a row: hard thresholds that are met first, then signals of a condition that
// is True, then the amount that is available in thresholds.
func (r *Row) tighter(a, b vitals.Reading) int {
	class := func(s *vitals.Reading) (n int) {
		if !s.Below() || s.Soft {
			n += 2
		}
		if !slices.Contains(r.Conditions, s.Signal.Definition().Condition.String()) {
			n++
		}
		return n
	}
	return cmp.Or(cmp.Compare(class(&a), class(&b)), cmp.Compare(ratio(&a), ratio(&b)))
}

// tightest returns the tightest reading.
func (r *Row) tightest() string {
	switch {
	case r.Agent == Silent:
		return "unknown"
	case len(r.readings) == 0:
		return ""
	}
	tightest := slices.MinFunc(r.readings, r.tighter)
	return readingText(&tightest)
}

// signals returns all readings.
func (r *Row) signals() string {
	texts := make([]string, len(r.readings))
	for i := range r.readings {
		texts[i] = readingText(&r.readings[i])
	}
	return strings.Join(texts, ", ")
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

// summary counts the nodes by the state of their agents, and those under pressure where no agent acts.
func (l *List) summary() string {
	counts, pressed, unprotected := map[State]int{}, 0, 0
	for i := range l.Items {
		r := &l.Items[i]
		counts[r.Agent]++
		if r.pressed() {
			pressed++
			if r.Agent != Armed {
				unprotected++
			}
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
	if unprotected > 0 {
		text += fmt.Sprintf(", %d of them unprotected", unprotected)
	}
	return text
}
