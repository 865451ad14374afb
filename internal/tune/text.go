package tune

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/simulate"
)

// Text returns the front as a table, or all thresholds.
func (r *Result) Text(all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Hard thresholds of %s: %d compared, over %s of %s\n\n", r.Signal, len(r.Points), plural(len(r.Recordings), "recording"), plural(r.Nodes, "node"))
	rows := [][]string{{"THRESHOLD", "EVICTIONS", "NODES EXHAUSTED", "TIME EXHAUSTED", ""}}
	hidden := 0
	for i := range r.Points {
		p := &r.Points[i]
		mark := ""
		if p.Front && all {
			mark = "on the front"
		}
		if !p.Front && !all {
			hidden++
			continue
		}
		rows = append(rows, append(p.cells(p.Threshold), mark))
	}
	writeRows(&b, append(rows, append(r.Recorded.cells("as recorded"), "")))
	if hidden > 0 {
		fmt.Fprintf(&b, "%s not on the front: another one is at least as good by every bound. --all shows them.\n", plural(hidden, "threshold"))
	}
	b.WriteString("\nThe front is that of evictions against " + map[string]string{"nodes": "nodes", "time": "time"}[r.By] + " exhausted. FROM..TO are the bounds of a replay. A node counts as exhausted\n" +
		"if no memory was left at a check, or the kernel's OOM killer acted for the memory of the node or of all pods.\n")
	b.WriteString(simulate.Explanation)
	for _, node := range r.Overlapping {
		fmt.Fprintf(&b, "Recordings of node %s overlap: what happened at that time counts more than once.\n", node)
	}
	for i := range r.Recordings {
		x := &r.Recordings[i]
		fmt.Fprintf(&b, "%s: node %s, checks: %d, from %s to %s\n", x.File, x.Node, x.Checks, x.Begin.UTC().Format(time.RFC3339), x.End.UTC().Format(time.RFC3339))
	}
	return recording.Printable(b.String())
}

// cells returns the row of some totals.
func (t *Totals) cells(name string) []string {
	seconds := func(s float64) string { return (time.Duration(s*1000) * time.Millisecond).String() }
	return []string{name, rangeText(t.Evictions, strconv.Itoa), rangeText(t.ExhaustedNodes, strconv.Itoa), rangeText(t.ExhaustedSeconds, seconds)}
}

func rangeText[T int | float64](r Range[T], text func(T) string) string {
	if r.Lower == r.Upper {
		return text(r.Lower)
	}
	return text(r.Lower) + ".." + text(r.Upper)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// writeRows writes rows with columns of equal width.
func writeRows(b *strings.Builder, rows [][]string) {
	var widths [5]int
	for _, cells := range rows {
		for n, cell := range cells {
			widths[n] = max(widths[n], len(cell))
		}
	}
	for _, cells := range rows {
		line := ""
		for n, cell := range cells {
			line += fmt.Sprintf("%-*s  ", widths[n], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// CSV returns all thresholds as comma-separated values, with a line of names.
func (r *Result) CSV() string {
	var b strings.Builder
	b.WriteString("threshold,front,evictionsLower,evictionsUpper,exhaustedNodesLower,exhaustedNodesUpper,exhaustedSecondsLower,exhaustedSecondsUpper\n")
	for i := range r.Points {
		p := &r.Points[i]
		fmt.Fprintf(&b, "%s,%t,%d,%d,%d,%d,%g,%g\n", p.Threshold, p.Front, p.Evictions.Lower, p.Evictions.Upper, p.ExhaustedNodes.Lower, p.ExhaustedNodes.Upper, p.ExhaustedSeconds.Lower, p.ExhaustedSeconds.Upper)
	}
	return b.String()
}
