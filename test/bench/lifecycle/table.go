package main

import (
	"fmt"
	"slices"
)

const mib = 1 << 20

// spread is the median, the minimum and the maximum of measured values.
type spread struct{ median, minimum, maximum float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	values = slices.Sorted(slices.Values(values))
	return spread{values[len(values)/2], values[0], values[len(values)-1]}
}

// figure formats a number with three significant digits.
func figure(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1 || v <= -1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func (s spread) String() string {
	if s.minimum == s.maximum {
		return figure(s.median)
	}
	return fmt.Sprintf("%s (%s-%s)", figure(s.median), figure(s.minimum), figure(s.maximum))
}

// quantity is a figure by which measurements are compared.
type quantity struct {
	name string
	of   func(*measurement) float64
}

func perMinute(of func(*used) float64) func(*measurement) float64 {
	return func(t *measurement) float64 { return of(&t.Idle) * 60 / t.Idle.Seconds }
}

// perRenewal returns the cost of one more renewal: the difference between the busy and the idle
// window, divided by the difference in renewals.
func perRenewal(of func(*used) float64) func(*measurement) float64 {
	return func(t *measurement) float64 {
		more := float64(t.Busy.Leases)/t.Busy.Seconds - float64(t.Idle.Leases)/t.Idle.Seconds
		return (of(&t.Busy)/t.Busy.Seconds - of(&t.Idle)/t.Idle.Seconds) / more
	}
}

func cpu(u *used) float64     { return u.CPU }
func bytes(u *used) float64   { return float64(u.Bytes) }
func objects(u *used) float64 { return float64(u.Objects) }

var idleMinute = []quantity{
	{"CPU, ms", perMinute(cpu)},
	{"allocated, MiB", func(t *measurement) float64 { return perMinute(bytes)(t) / mib }},
	{"collections of garbage", perMinute(func(u *used) float64 { return float64(u.Collected) })},
	{"objects, thousands", func(t *measurement) float64 { return perMinute(objects)(t) / 1000 }},
}

var eachRenewal = []quantity{
	{"CPU, µs", func(t *measurement) float64 { return 1000 * perRenewal(cpu)(t) }},
	{"allocated, bytes", perRenewal(bytes)},
	{"objects", perRenewal(objects)},
}

var memoryQuantities = []quantity{
	{"heap after a collection, MiB", func(t *measurement) float64 { return float64(t.Heap) / mib }},
	{"resident, MiB", func(t *measurement) float64 { return float64(t.Resident) / mib }},
}

// series are all measurements of one size.
type series []measurement

// of returns the values of a quantity for one contender, in order of the runs.
func (t series) of(name string, decoding bool, q func(*measurement) float64) []float64 {
	var values []float64
	for i := range t {
		if t[i].Name == name && t[i].Decoding == decoding {
			values = append(values, q(&t[i]))
		}
	}
	return values
}

// beyond returns the consumption of a contender beyond decoding, run by run. blur is the spread
// of the runs of decoding alone; smaller differences can not be resolved.
func (t series) beyond(name string, q func(*measurement) float64) (difference spread, blur float64) {
	complete, decoding := t.of(name, false, q), t.of(name, true, q)
	all := make([]float64, min(len(complete), len(decoding)))
	for i := range all {
		all[i] = complete[i] - decoding[i]
	}
	d := spreadOf(decoding)
	return spreadOf(all), d.maximum - d.minimum
}

// times formats the ratio of the first to the second.
func times(first, second, blur float64) string {
	switch {
	case second > blur && second > 0:
		return figure(first / second)
	case first > blur && blur > 0:
		return "> " + figure(first/blur)
	}
	return "-"
}

func printBeside(o *options, all []measurement) {
	fmt.Printf("\n## Beside Kubernetes' controllers: %d images and %d pods on each node, median (least-most) of %d times %s\n", o.images, o.pods, o.runs, o.window)
	for _, table := range []struct {
		title      string
		quantities []quantity
	}{{"An idle minute", idleMinute}, {"One more renewal", eachRenewal}, {"Memory", memoryQuantities}} {
		printComparison(o, all, table.title, table.quantities)
	}
	printDeaths(o, all)
}

func printComparison(o *options, all []measurement, title string, quantities []quantity) {
	fmt.Printf("\n### %s\n\n| nodes | | upstream | Plimsoll | times | upstream, decoding alone | Plimsoll, decoding alone | upstream without it | Plimsoll without it | times |\n|---|---|---|---|---|---|---|---|---|---|\n", title)
	for _, nodes := range o.sizes {
		t := ofSize(all, nodes)
		for _, q := range quantities {
			theirs, ours := spreadOf(t.of("upstream", false, q.of)), spreadOf(t.of("plimsoll", false, q.of))
			theirFloor, ourFloor := spreadOf(t.of("upstream", true, q.of)), spreadOf(t.of("plimsoll", true, q.of))
			theirOwn, _ := t.beyond("upstream", q.of)
			ourOwn, blur := t.beyond("plimsoll", q.of)
			fmt.Printf("| %d | %s | %v | %v | %s | %v | %v | %v | %v | %s |\n", nodes, q.name,
				theirs, ours, times(theirs.median, ours.median, 0), theirFloor, ourFloor, theirOwn, ourOwn, times(theirOwn.median, ourOwn.median, blur))
		}
	}
}

func ofSize(all []measurement, nodes int) series {
	var some series
	for _, t := range all {
		if t.Size.Nodes == nodes {
			some = append(some, t)
		}
	}
	return some
}

func printDeaths(o *options, all []measurement) {
	if o.kill == 0 {
		return
	}
	fmt.Printf("\n### From the deadline of a dead node to Unknown, and what was called\n\n| nodes | | killed | Unknown, s after the deadline | not Unknown in time | longest stall of the machine, s | calls |\n|---|---|---|---|---|---|---|\n")
	for _, nodes := range o.sizes {
		t := ofSize(all, nodes)
		for _, c := range contenders {
			var late []float64
			missed, stall := 0, 0.0
			var calls map[string]int
			for i := range t {
				if t[i].Name == c.name && !t[i].Decoding {
					d := &t[i].Deaths
					late, missed, stall, calls = append(late, d.Late...), missed+d.Missed, max(stall, d.Stall), t[i].Calls
				}
			}
			fmt.Printf("| %d | %s | %d | %v | %d | %.3f | %v |\n", nodes, c.name, len(late)+missed, spreadOf(late), missed, stall, calls)
		}
	}
}
