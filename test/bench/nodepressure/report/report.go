// Package report makes a page and a table from results. A page is one file without scripts and without
// references to other places. Everything in it comes from the results, and is escaped: results may come
// from anyone.
package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// Report is a summary of results, one section for each machine and kind of node.
type Report struct {
	Sections []*Section
	Pairs    []Pair  // of runs that were repeated, may be none
	Margin   *Margin // of a contestant with a horizon, may be nil
}

// Section has the results of one machine.
type Section struct {
	Machine     string
	Node        string
	Cgroup      int
	Contestants []*Contestant // the one with the most runs won first
	Incidents   []*Incident
}

// Contestant is the summary of all its runs.
type Contestant struct {
	result.Contestant
	Total score.Cell
	// Incidents is the number of incidents with a valid run.
	Incidents   int
	Failed      int      // runs
	Unavailable []string // reasons why it did not run, each once
}

// Incident is a row of the matrix.
type Incident struct {
	result.Incident
	Cells []*Cell // in the order of the section's contestants
}

// Cell is one contestant in one incident.
type Cell struct {
	Contestant string
	score.Cell
	Failed  int                // runs
	Example *score.Observation // of the worst run
	worst   int
}

// New summarizes results. Its order does not depend on theirs.
func New(results []*result.Result) *Report {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b *result.Result) int {
		return cmp.Or(strings.Compare(section(a), section(b)), strings.Compare(a.Incident.Name, b.Incident.Name),
			strings.Compare(a.Contestant.Name, b.Contestant.Name), cmp.Compare(a.Seed, b.Seed))
	})
	r := &Report{}
	for results := range groups(sorted, section) {
		r.Sections = append(r.Sections, newSection(results))
	}
	return r
}

// groups yields the parts of a sorted list that have one key each.
func groups[T any](all []T, key func(T) string) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(x T) bool { return key(x) != key(all[0]) })
			if n < 0 {
				n = len(all)
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// section identifies what is comparable. The load at the begin of a run is no part of a machine. The memory of two boots
// differs by some pages, so it is rounded to 64 MiB. A provider rebuilds a kernel while a series runs, so builds of one
// version are comparable; the heading of a section names each.
func section(r *result.Result) string {
	m := r.Machine
	m.Load, m.Memory, m.Kernel = "", (m.Memory+32<<20)>>26, m.KernelVersion()
	return fmt.Sprintf("%+v %s %s", m, r.Arena, r.Benchmark)
}

func newSection(results []*result.Result) *Section {
	first := results[0]
	machine := first.Machine
	machine.Kernel = strings.Join(unique(results, func(r *result.Result) string { return r.Machine.Kernel }), " and ")
	s := &Section{Machine: machine.String(), Node: nodeOf(first.Arena), Cgroup: machine.Cgroup}
	for _, name := range unique(results, func(r *result.Result) string { return program(r.Contestant) }) {
		s.Contestants = append(s.Contestants, newContestant(only(results, func(r *result.Result) bool { return program(r.Contestant) == name })))
	}
	slices.SortStableFunc(s.Contestants, func(a, b *Contestant) int {
		return cmp.Or(-cmp.Compare(won(a.Total), won(b.Total)), strings.Compare(program(a.Contestant), program(b.Contestant)))
	})
	for _, name := range unique(results, func(r *result.Result) string { return key(r.Incident.Named) }) {
		s.Incidents = append(s.Incidents, s.newIncident(only(results, func(r *result.Result) bool { return key(r.Incident.Named) == name })))
	}
	return s
}

func nodeOf(arena string) string {
	if arena == "machine" {
		return "the whole machine"
	}
	return "a cgroup with a limit"
}

// key identifies a file: two files with one name may differ.
func key(n result.Named) string { return n.Name + " " + n.Hash }

// program identifies a contestant by its file and version.
func program(c result.Contestant) string { return key(c.Named) + " " + c.Version }

func unique(results []*result.Result, of func(*result.Result) string) (all []string) {
	for _, r := range results {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func only(results []*result.Result, is func(*result.Result) bool) (some []*result.Result) {
	for _, r := range results {
		if is(r) {
			some = append(some, r)
		}
	}
	return some
}

func scores(results []*result.Result) (all []score.Score) {
	for _, r := range results {
		if r.Score != nil {
			all = append(all, *r.Score)
		}
	}
	return all
}

func newContestant(results []*result.Result) *Contestant {
	c := &Contestant{Contestant: results[0].Contestant, Total: score.Summarize(scores(results))}
	ran := only(results, func(r *result.Result) bool { return r.Score != nil && r.Score.Verdict != score.Invalid })
	c.Incidents = len(unique(ran, func(r *result.Result) string { return key(r.Incident.Named) }))
	for _, r := range results {
		reason := r.Unavailable
		if r.Failed != "" {
			c.Failed++
			reason = "a run failed: " + r.Failed
		}
		if reason != "" && !slices.Contains(c.Unavailable, reason) {
			c.Unavailable = append(c.Unavailable, reason)
		}
	}
	return c
}

// won returns the share of the valid runs that were won, -1 without one.
func won(c score.Cell) float64 {
	if c.Runs == 0 {
		return -1
	}
	return float64(c.Verdicts[score.Won]) / float64(c.Runs)
}

func (s *Section) newIncident(results []*result.Result) *Incident {
	i := &Incident{Incident: results[0].Incident}
	for _, c := range s.Contestants {
		runs := only(results, func(r *result.Result) bool { return program(r.Contestant) == program(c.Contestant) })
		x := &Cell{Contestant: c.Name, Cell: score.Summarize(scores(runs)), worst: -1}
		for _, r := range runs {
			if r.Failed != "" {
				x.Failed++
			}
			if r.Score == nil {
				continue
			}
			if rank := slices.Index(score.Verdicts, r.Score.Verdict); rank > x.worst {
				x.worst, x.Example = rank, r.Observation
			}
		}
		i.Cells = append(i.Cells, x)
	}
	return i
}

// Verdicts returns the verdicts of a cell other than won, such as "lost 3, wrong 1".
func (c *Cell) Verdicts() string {
	var parts []string
	for _, v := range slices.Backward(score.Verdicts) {
		if n := c.Cell.Verdicts[v]; n > 0 && v != score.Won {
			parts = append(parts, fmt.Sprintf("%s %d", v, n))
		}
	}
	if c.Invalid > 0 {
		parts = append(parts, fmt.Sprintf("invalid %d", c.Invalid))
	}
	if c.Failed > 0 {
		parts = append(parts, fmt.Sprintf("failed %d", c.Failed))
	}
	return strings.Join(parts, ", ")
}

// Uncounted returns the number of runs without a verdict that counts: invalid and failed ones.
func (c *Contestant) Uncounted() int { return c.Total.Invalid + c.Failed }

// Began reports whether a run began, so that the contestant is in the tables.
func (c *Contestant) Began() bool { return c.Total.Runs+c.Uncounted() > 0 }

// Ran reports whether there is a valid run.
func (c *Cell) Ran() bool { return c.Runs > 0 }

// Won returns "8/10": runs won of valid runs.
func (c *Cell) Won() string { return fraction(c.Cell.Verdicts[score.Won], c.Runs) }

func fraction(n, of int) string { return fmt.Sprintf("%d/%d", n, of) }

// Expectation describes in words what a perfect contestant does.
func (i *Incident) Expectation() string {
	switch e := i.Expect; {
	case e.Exhausts && e.Needed == 1:
		return "Memory runs out unless one pod of " + strings.Join(e.MayKill, ", ") + " ends."
	case e.Exhausts:
		return fmt.Sprintf("Memory runs out unless %d pods of %s end.", e.Needed, strings.Join(e.MayKill, ", "))
	}
	return "Memory does not run out: no pod has to end."
}

// metric is one column of the detailed tables.
type metric struct {
	Name string
	of   func(*score.Cell) score.Spread
	show func(float64) string
}

var (
	crossingToDead = metric{"crossing to dead", func(c *score.Cell) score.Spread { return c.CrossingToDead }, showTime}
	timeLeft       = metric{"time left at the kill", func(c *score.Cell) score.Spread { return c.TimeLeft }, showTime}
	leastLeft      = metric{"least left", func(c *score.Cell) score.Spread { return c.Least }, showBytes}
)

var metrics = []metric{
	crossingToDead,
	{"left at the kill", func(c *score.Cell) score.Spread { return c.LeftAtKill }, showBytes},
	timeLeft,
	leastLeft,
	{"neighbour’s throughput", func(c *score.Cell) score.Spread { return c.Isolation }, showPercent},
	{"neighbour’s p99", func(c *score.Cell) score.Spread { return c.P99Ratio }, showFactor},
	{"heartbeat gap", func(c *score.Cell) score.Spread { return c.HeartbeatGap }, showTime},
	{"CPU waiting", func(c *score.Cell) score.Spread { return c.CPUWaiting }, showPercent},
	{"CPU in the incident", func(c *score.Cell) score.Spread { return c.CPUIncident }, showTime},
	{"resident", func(c *score.Cell) score.Spread { return c.MaxResident }, showBytes},
}

// Show returns the metric of a cell as "median (worst)", and the number of runs with a value if it is not
// that of all runs.
func (m metric) Show(c *score.Cell) string {
	s := m.of(c)
	if s.N == 0 {
		return "–"
	}
	text := m.show(s.Median)
	if s.N > 1 {
		text += " (" + m.show(s.Worst) + ")"
	}
	if s.N < c.Runs {
		text += fmt.Sprintf(", n = %d", s.N)
	}
	return text
}
