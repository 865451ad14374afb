package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// Pair is a run and its repetition: the same incident, contestant, machine and seed. Both have one plan, and differ by the
// noise of the machine.
type Pair struct{ First, Again *result.Result }

// Pairs returns the valid runs of both lists that repeat each other, in the order of machine, incident, contestant and seed.
func Pairs(first, again []*result.Result) (pairs []Pair) {
	valid := map[string]*result.Result{}
	for _, r := range first {
		if r.Valid() {
			valid[r.Identity()] = r
		}
	}
	for _, r := range again {
		if one := valid[r.Identity()]; one != nil && r.Valid() {
			pairs = append(pairs, Pair{one, r})
		}
	}
	slices.SortStableFunc(pairs, func(a, b Pair) int {
		return cmp.Or(strings.Compare(a.cell(), b.cell()), cmp.Compare(a.First.Seed, b.First.Seed))
	})
	return pairs
}

// cell identifies a row of the table.
func (p Pair) cell() string {
	return strings.Join([]string{p.First.Machine.Name, p.First.Incident.Name, p.First.Contestant.Name}, "\x00")
}

// pairsTable writes one row for each cell.
func pairsTable(b *strings.Builder, pairs []Pair) {
	header := []string{"machine", "incident", "contestant", "pairs", "with one plan", "with one verdict"}
	noisy := []metric{crossingToDead, timeLeft, leastLeft}
	for _, m := range noisy {
		header = append(header, m.Name, "most within a pair")
	}
	row(b, header...)
	rule(b, len(header))
	for of := range groups(pairs, Pair.cell) {
		first := of[0].First
		cells := []string{
			first.Machine.Name, first.Incident.Name, first.Contestant.Name, fmt.Sprint(len(of)),
			fmt.Sprint(count(of, func(p Pair) bool { return p.First.Observation.Plan == p.Again.Observation.Plan })),
			fmt.Sprint(count(of, func(p Pair) bool { return p.First.Score.Verdict == p.Again.Score.Verdict })),
		}
		for _, m := range noisy {
			cells = append(cells, m.noise(of)...)
		}
		row(b, cells...)
	}
	b.WriteString("\n")
}

func count(pairs []Pair, is func(Pair) bool) (n int) {
	for _, p := range pairs {
		if is(p) {
			n++
		}
	}
	return n
}

// noise returns the smallest and largest value of all runs, and the largest difference within a pair.
func (m metric) noise(pairs []Pair) []string {
	var values, differences []float64
	for _, p := range pairs {
		first, again := m.single(p.First), m.single(p.Again)
		if first.N == 0 || again.N == 0 {
			continue
		}
		values = append(values, first.Median, again.Median)
		differences = append(differences, math.Abs(first.Median-again.Median))
	}
	if len(values) == 0 {
		return []string{"–", "–"}
	}
	return []string{m.show(slices.Min(values)) + " to " + m.show(slices.Max(values)), m.show(slices.Max(differences))}
}

// single returns the value of one run, with N = 0 if it has none.
func (m metric) single(r *result.Result) score.Spread {
	c := score.Summarize([]score.Score{*r.Score})
	return m.of(&c)
}
