package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// columns lists the columns of a group's table, each computed from all runs of a row.
var columns = []struct {
	title string
	cell  func(runs []result) string
}{
	{"MiB/s reached: median (most)", func(rs []result) string {
		return span(each(rs, func(r *result) *float64 { return positive(r.Reached) }), "%.0f")
	}},
	{"saved", func(rs []result) string { return fmt.Sprintf("%d/%d", count(rs, saved), len(rs)) }},
	{"lost to the kernel", func(rs []result) string { return fmt.Sprint(count(rs, lost)) }},
	{"wrong victims", func(rs []result) string { return fmt.Sprint(wronged(rs)) }},
	{"crossing to dead, ms: median (p99)", toDead},
	{"crossing to SIGKILL sent", func(rs []result) string {
		return span(each(rs, func(r *result) *float64 { return r.ToSignal }), "%.2f")
	}},
	{"crossing to the kernel's own notification", func(rs []result) string {
		return span(each(rs, func(r *result) *float64 { return r.ToNotified }), "%.2f")
	}},
	{"SIGKILL after that", func(rs []result) string { return span(each(rs, afterNotified), "%.2f") }},
	{"check to SIGKILL", func(rs []result) string {
		return span(each(rs, func(r *result) *float64 { return r.CheckToSignal }), "%.2f")
	}},
	{"least left, MiB: median (least)", func(rs []result) string { return minLeft(rs) }},
	{"CPU waiting, % of a core", func(rs []result) string {
		return middleOf(rs, func(r *result) *float64 { return &r.CPUWaiting }, "%.2f")
	}},
	{"CPU in the race, ms", func(rs []result) string { return middleOf(rs, func(r *result) *float64 { return &r.CPURace }, "%.1f") }},
}

// header begins a table.
func (h group) header(to io.Writer, runs int) {
	fmt.Fprintf(to, "\n## Reaction: memory.available<%dMi, %s, %s, %d runs a row\n\n", h.margin/mib, h.nodeKind.about(), beside(h.spinners), runs)
	fmt.Fprintf(to, "Times in ms, median (p99; of fewer than 100 runs that is the worst).\n\n| rate | mode |")
	for _, c := range columns {
		fmt.Fprintf(to, " %s |", c.title)
	}
	fmt.Fprintf(to, "\n|---|---|%s\n", strings.Repeat("---|", len(columns)))
}

func (a *nodeKind) about() string {
	if a.limit < fillLimit+1 {
		return fmt.Sprintf("node is a %s of %d MiB", a.name, a.limit/mib)
	}
	return "node is the " + a.name
}

func beside(spinners int) string {
	if spinners == 0 {
		return "nothing beside it"
	}
	return fmt.Sprintf("%d busy loops beside it", spinners)
}

func row(runs []result) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.cell(runs)
	}
	return strings.Join(cells, " | ")
}

// explain writes the times of every lost race.
func explain(to io.Writer, losses []result) {
	if len(losses) == 0 {
		return
	}
	fmt.Fprintf(to, "\n| lost | memory lasted from the crossing, ms | check after the crossing | check to SIGKILL | SIGKILL after the crossing |\n|---|---|---|---|---|\n")
	for _, r := range losses {
		fmt.Fprintf(to, "| %s at %s (%.0f MiB/s), %s | %s | %s | %s | %s |\n", r.Mode, rateName(r.Requested), r.Reached, r.Outcome,
			orDash(r.ToExhausted), orDash(r.ToCheck), orDash(r.CheckToSignal), orDash(r.ToSignal))
	}
}

func orDash(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *ms)
}

func count(runs []result, outcome string) (n int) {
	for i := range runs {
		if runs[i].Outcome == outcome {
			n++
		}
	}
	return n
}

func wronged(runs []result) (n int) {
	for i := range runs {
		n += runs[i].Wrong
	}
	return n
}

// each returns the sorted values of a figure over the runs that have it.
func each(runs []result, of func(*result) *float64) (values []float64) {
	for i := range runs {
		if v := of(&runs[i]); v != nil {
			values = append(values, *v)
		}
	}
	slices.Sort(values)
	return values
}

// ofSaved is each without the races that the kernel decided.
func ofSaved(runs []result, of func(*result) *float64) []float64 {
	return each(runs, func(r *result) *float64 {
		if r.Outcome != saved {
			return nil
		}
		return of(r)
	})
}

// toDead also shows the number of samples if some are missing. A sampler without CPU for a
// while, as in an emulated machine, misses crossings.
func toDead(runs []result) string {
	times := ofSaved(runs, func(r *result) *float64 { return r.ToDead })
	cell := span(times, "%.1f")
	if all := count(runs, saved); len(times) < all {
		cell += fmt.Sprintf(", %d of %d crossings seen", len(times), all)
	}
	return cell
}

// afterNotified returns the time from the kernel's notification, as received by a process that
// only waits for it, to SIGKILL.
func afterNotified(r *result) *float64 {
	if r.ToSignal == nil || r.ToNotified == nil {
		return nil
	}
	ms := *r.ToSignal - *r.ToNotified
	return &ms
}

func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}

// span returns the median and the 99th percentile of sorted values.
func span(sorted []float64, form string) string {
	if len(sorted) == 0 {
		return "-"
	}
	return fmt.Sprintf(form+" ("+form+")", percentile(sorted, 50), percentile(sorted, 99))
}

func middleOf(runs []result, of func(*result) *float64, form string) string {
	values := each(runs, of)
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf(form, percentile(values, 50))
}

func minLeft(runs []result) string {
	values := ofSaved(runs, func(r *result) *float64 { return &r.MinAvailable })
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f (%.1f)", percentile(values, 50), values[0])
}

// percentile returns the smallest value not below p % of the sorted values.
func percentile(sorted []float64, p float64) float64 {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
