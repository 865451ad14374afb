package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// section is a part of a report, in any form. Its texts are sentences with marks.
type section struct {
	Level      int // of the heading: 2 or 3
	Heading    string
	Paragraphs []string
	Facts      [][2]string // names with their values
	Table      *table
	List       []string

	history *history // its picture
	memory  bool     // the picture is that of the memory of pods
}

// table is a table. The first cell of a row names it.
type table struct {
	Caption string
	Heads   []string
	Rows    []row
}

// row is a row of a table.
type row struct {
	Cells   []string
	Letter  string // of a layer of the picture
	Chosen  bool
	Omitted string // stands for rows that are left out; there are no cells
}

// document returns the sections of a report.
func (i *Incident) document() []section {
	all := []section{{Level: 2, Heading: "What happened", Paragraphs: []string{strings.Join(i.summary(), " ")}, Facts: i.heads()}}
	all = append(all, i.timeline()...)
	all = append(all, i.evictionSections()...)
	return append(all, i.killSection(), i.departureSection(), i.missing())
}

// timeline returns the pictures, and the decisions.
func (i *Incident) timeline() []section {
	all := []section{{Level: 2, Heading: "Timeline", Paragraphs: []string{
		fmt.Sprintf("All times are UTC. A curve has at most %d points: the smallest and the largest value of each of %d equal parts of the time.", 2*columns, columns)}}}
	for _, h := range i.shown() {
		s := section{Level: 3, Heading: h.signal.String(), history: h, Paragraphs: []string{i.caption(h)}}
		all = append(all, s)
	}
	if i.usages > 0 {
		all = append(all, section{Level: 3, Heading: "Memory of pods", memory: true, Table: i.layerTable(), Paragraphs: []string{
			fmt.Sprintf("Working set of the %d largest pods and of all others together, the largest (A) at the bottom. Each drawn value was measured: those with the smallest and the largest total of each of %d parts of the time, and the largest of each pod.", maxLayers, memoryColumns)}})
	}
	return append(all,
		section{Level: 3, Heading: "Signals and thresholds", Table: i.signalTable()},
		section{Level: 3, Heading: "Decisions", Table: i.decisionTable()})
}

// caption describes the picture of a signal.
func (i *Incident) caption(h *history) string {
	unit := h.signal.Definition().Unit
	least, most, _ := h.available.extremes()
	text := fmt.Sprintf("Available: from %s to %s, of %s. The dashed lines are thresholds. The numbers are those of the evictions below. %s",
		unit.Short(signals.Amount(least.value)), unit.Short(signals.Amount(most.value)), amount(h.capacity, unit), shapeNames)
	if top, cut := h.scale(); cut {
		text += fmt.Sprintf(" Amounts above %s are drawn at the upper edge.", unit.Short(signals.Amount(top)))
	}
	return text
}

func (i *Incident) signalTable() *table {
	t := &table{Caption: "Each threshold, and how often a recorded check was below it", Heads: []string{"Signal", "Threshold", "In force", "Crossed", "Below it for", "Least available", "Capacity"}}
	without := "not known"
	if slices.ContainsFunc(i.histories[:], func(h *history) bool { return h != nil && len(h.crossings) > 0 }) {
		without = "none"
	}
	for _, h := range i.histories {
		if h == nil {
			continue
		}
		unit := h.signal.Definition().Unit
		least, capacity := unknown, unknown
		if p, _, known := h.available.extremes(); known {
			least, capacity = unit.Short(signals.Amount(p.value)), unit.Short(h.capacity)
		}
		for _, c := range h.crossings {
			below := "-"
			if c.times > 0 {
				below = duration(c.total)
			}
			t.Rows = append(t.Rows, row{Cells: []string{h.signal.String(), quote(c.threshold), i.clock(c.from) + " to " + i.clock(c.to), times(c.times), below, least, capacity}})
		}
		if len(h.crossings) == 0 {
			t.Rows = append(t.Rows, row{Cells: []string{h.signal.String(), without, "-", "-", "-", least, capacity}})
		}
	}
	return t
}

func (i *Incident) layerTable() *table {
	t := &table{Caption: "Memory of the drawn pods", Heads: []string{"Pod", "First", "Largest", "Last", "Left"}}
	for n, l := range i.memory.layers {
		if !l.isDrawn() {
			continue
		}
		bytes := func(n int64) string { return signals.UnitBytes.Short(signals.Amount(n)) }
		name, left := quote(l.name), "-"
		if n == len(i.memory.layers)-1 {
			name = l.name
		}
		if l.end != "" {
			left = l.end + " at " + i.clock(l.endAt)
		}
		t.Rows = append(t.Rows, row{Letter: letter(n), Cells: []string{name, bytes(l.first), bytes(l.most) + " at " + i.clock(l.mostAt), bytes(l.last), left}})
	}
	return t
}

func (i *Incident) decisionTable() *table {
	t := &table{Caption: "Lines of the decision log", Heads: []string{"Time", "Decision", "Check", "Threshold", "Pod", "Reason and result"}}
	all, gap := i.decisions.all()
	for n, x := range all {
		if n == gap && i.decisions.omitted > 0 {
			t.Rows = append(t.Rows, row{Omitted: fmt.Sprintf("%s in between are left out.", plural(i.decisions.omitted, "decision"))})
		}
		when := i.moment(x.at)
		if x.repeats > 0 {
			when += fmt.Sprintf(", repeated %s until %s", times(x.repeats), i.clock(x.last))
		}
		t.Rows = append(t.Rows, row{Cells: []string{when, quote(x.verb), quote(x.check), quote(x.limit), quote(x.pod), x.text}})
	}
	return t
}

func (i *Incident) evictionSections() []section {
	items, gap := i.evictions.all()
	head := section{Level: 2, Heading: "Evictions", Paragraphs: []string{"What a kubelet would have done follows from the same measurements and its own rules. It checks every ten seconds by default, so that it may have acted later."}}
	if len(items) == 0 {
		head.Paragraphs = []string{"No eviction is recorded."}
	}
	if i.evictions.omitted > 0 {
		head.Paragraphs = append(head.Paragraphs, fmt.Sprintf("Of %d evictions the first %d and the last %d are shown.", i.evictions.count(), gap, len(items)-gap))
	}
	all := []section{head}
	for n, x := range items {
		if n >= gap {
			n += i.evictions.omitted
		}
		all = append(all, i.evictionSection(n+1, x))
	}
	return all
}

func (i *Incident) evictionSection(number int, x *evicted) section {
	s := section{Level: 3, Heading: fmt.Sprintf("Eviction %d: %s", number, quote(x.pod)), Facts: i.facts(x), Table: x.places()}
	if s.Table == nil && !isLimit(x.cause) {
		s.Paragraphs = []string{"The ranking is not recorded."}
	}
	return s
}

func (i *Incident) killSection() section {
	s := section{Level: 2, Heading: "OOM kills of the kernel"}
	items, gap := i.kills.all()
	if len(items) == 0 {
		s.Paragraphs = i.killSentences()
		return s
	}
	s.Table = &table{Caption: "Processes that the kernel's OOM killer ended. The kernel decides this, not the agent", Heads: []string{"Time", "Pod", "Processes", "Held most", "Grew most before", "Explanation"}}
	for n := range items {
		k := &items[n]
		if n == gap && i.kills.omitted > 0 {
			s.Table.Rows = append(s.Table.Rows, row{Omitted: fmt.Sprintf("%s in between are left out.", plural(i.kills.omitted, "kill"))})
		}
		s.Table.Rows = append(s.Table.Rows, row{Cells: []string{i.period(k), cmp.Or(quote(k.pod), "outside of pods"), strconv.FormatInt(k.processes, 10), quote(k.held), quote(k.grew), k.text}})
	}
	return s
}

func (i *Incident) departureSection() section {
	s := section{Level: 2, Heading: "Evictions by other programs"}
	items, gap := i.departures.all()
	if len(items) == 0 {
		s.Paragraphs = []string{"None is recorded."}
		return s
	}
	s.Paragraphs = []string{"These pods ended as evicted without a recorded eviction by this agent: by a kubelet or another program, or by the agent before this time."}
	s.Table = &table{Caption: "Pods that ended as evicted", Heads: []string{"Pod", "Noticed at"}}
	for n, d := range items {
		if n == gap && i.departures.omitted > 0 {
			s.Table.Rows = append(s.Table.Rows, row{Omitted: fmt.Sprintf("%s in between are left out.", plural(i.departures.omitted, "pod"))})
		}
		s.Table.Rows = append(s.Table.Rows, row{Cells: []string{quote(d.pod), i.clock(d.at)}})
	}
	return s
}

// missing states the gaps of the recording.
func (i *Incident) missing() section {
	s := section{Level: 2, Heading: "What is missing"}
	items, gap := i.gaps.all()
	for n, text := range items {
		if n == gap && i.gaps.omitted > 0 {
			s.List = append(s.List, fmt.Sprintf("%s in between are left out.", plural(i.gaps.omitted, "gap")))
		}
		s.List = append(s.List, text)
	}
	if s.List = append(s.List, i.notes...); len(s.List) == 0 {
		s.Paragraphs = []string{"No gap was found in this time."}
	}
	return s
}
