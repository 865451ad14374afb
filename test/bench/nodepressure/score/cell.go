package score

import (
	"math"
	"slices"
)

// Cell is the summary of all valid runs of one contestant in one incident.
type Cell struct {
	Runs     int // valid ones
	Invalid  int
	Verdicts map[Verdict]int
	Saved    int
	// Sums over the runs.
	KernelKills int64
	RightVictim int
	Bystanders  int
	Regrets     int
	// Medians and worst values.
	CrossingToDead Spread // ms, of the runs with one
	LeftAtKill     Spread // bytes, of the runs with one
	TimeLeft       Spread // ms, likewise
	Least          Spread // bytes
	Isolation      Spread // percent
	P99Ratio       Spread
	HeartbeatGap   Spread  // ms
	CPUWaiting     Spread  // percent of a core, of the runs in which it is known
	CPUIncident    Spread  // ms, likewise
	MaxResident    Spread  // bytes, likewise
	Worst          Verdict // of the valid runs
}

// Spread is a median with the worst value.
type Spread struct {
	N             int
	Median, Worst float64
}

// Summarize returns the cell of scores.
func Summarize(scores []Score) Cell {
	c := Cell{Verdicts: map[Verdict]int{}}
	var valid []Score
	for _, s := range scores {
		if s.Verdict == Invalid {
			c.Invalid++
			continue
		}
		valid = append(valid, s)
		c.Runs++
		c.Verdicts[s.Verdict]++
		if slices.Index(Verdicts, s.Verdict) > slices.Index(Verdicts, c.Worst) {
			c.Worst = s.Verdict
		}
		if s.Saved {
			c.Saved++
		}
		if s.RightVictim != nil && *s.RightVictim {
			c.RightVictim++
		}
		c.KernelKills += s.KernelKills
		c.Bystanders += len(s.Bystanders)
		c.Regrets += s.Regrets
	}
	high := func(of func(*Score) float64) Spread { return spread(valid, of, slices.Max[[]float64]) }
	low := func(of func(*Score) float64) Spread { return spread(valid, of, slices.Min[[]float64]) }
	c.CrossingToDead = high(func(s *Score) float64 { return orNaN(s.CrossingToDead) })
	c.LeftAtKill = low(func(s *Score) float64 { return orNaN(s.LeftAtKill) })
	c.TimeLeft = low(func(s *Score) float64 { return orNaN(s.TimeLeft) })
	c.Least = low(func(s *Score) float64 { return float64(s.Least) })
	c.Isolation = low(func(s *Score) float64 { return s.Isolation })
	c.P99Ratio = high(func(s *Score) float64 {
		if s.P99Ratio == 0 {
			return math.NaN()
		}
		return s.P99Ratio
	})
	c.HeartbeatGap = high(func(s *Score) float64 { return s.HeartbeatGap })
	cost := func(of func(*Score) float64) Spread {
		return high(func(s *Score) float64 {
			if s.CostUnknown {
				return math.NaN()
			}
			return of(s)
		})
	}
	c.CPUWaiting = cost(func(s *Score) float64 { return s.CPUWaiting })
	c.CPUIncident = cost(func(s *Score) float64 { return s.CPUIncident })
	c.MaxResident = cost(func(s *Score) float64 { return float64(s.MaxResident) })
	return c
}

// orNaN returns NaN, which [spread] leaves out, for a value that a run has not.
func orNaN[T int64 | float64](v *T) float64 {
	if v == nil {
		return math.NaN()
	}
	return float64(*v)
}

// spread leaves out what is no number.
func spread(scores []Score, of func(*Score) float64, worst func([]float64) float64) Spread {
	var values []float64
	for i := range scores {
		if v := of(&scores[i]); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return NewSpread(values, worst)
}

// NewSpread returns the median of values, in any order, and the one that a function selects as the worst.
func NewSpread(values []float64, worst func([]float64) float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{len(sorted), median(sorted), worst(sorted)}
}

func median(sorted []float64) float64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
