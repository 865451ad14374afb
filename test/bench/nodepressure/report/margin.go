package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// promised is the least part of its margin, in percent, that a kill should leave.
const promised = 90

// Margin is what a contestant with a horizon left at its kills. Such a contestant ends a pod when less than the threshold is
// available and memory would last for less than the horizon. So a kill that took no time would leave all of the threshold or
// all of the horizon, whichever is reached later.
type Margin struct {
	Contestant string
	Horizon    time.Duration
	runs       []*result.Result // with a kill, in the order of machine and incident
}

// ParseMargin reads CONTESTANT=TIME, and takes the kills of that contestant from the results. Returns an error if the text is
// not of that form, or the time is not positive.
func ParseMargin(text string, results []*result.Result) (*Margin, error) {
	name, horizon, _ := strings.Cut(text, "=")
	d, err := time.ParseDuration(horizon)
	if err != nil || name == "" || d <= 0 {
		return nil, fmt.Errorf("horizon %q: want CONTESTANT=TIME, such as watcher=500ms", text)
	}
	m := &Margin{Contestant: name, Horizon: d}
	for _, r := range results {
		if r.Contestant.Name == name && r.Valid() && r.Score.LeftAtKill != nil && r.Observation.Threshold > 0 {
			m.runs = append(m.runs, r)
		}
	}
	slices.SortStableFunc(m.runs, func(a, b *result.Result) int { return cmp.Compare(place(a), place(b)) })
	return m, nil
}

// place identifies a row of the table.
func place(r *result.Result) string { return r.Machine.Name + "\x00" + r.Incident.Name }

// left returns what a run left at its kill, in percent of the threshold and of the horizon. The second one is 0 if memory did
// not fall before.
func (m *Margin) left(r *result.Result) (ofThreshold, ofHorizon float64) {
	ofThreshold = 100 * float64(*r.Score.LeftAtKill) / float64(r.Observation.Threshold)
	if r.Score.TimeLeft != nil {
		ofHorizon = 100 * *r.Score.TimeLeft / milliseconds(m.Horizon)
	}
	return ofThreshold, ofHorizon
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// markdown writes one row for each incident of each machine.
func (m *Margin) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## Left at the kill by %s\n\nIt acts when less than the threshold is available and memory would last for less than %s. So a kill "+
		"that takes no time leaves all of the threshold or all of that time. Each run counts with the larger share. Medians, with the worst value in brackets.\n\n",
		escape(m.Contestant), showTime(milliseconds(m.Horizon)))
	header := []string{"machine", "incident", "kills", "of the threshold", "of " + showTime(milliseconds(m.Horizon)), "the larger one", fmt.Sprintf("at least %d %%", promised)}
	row(b, header...)
	rule(b, len(header))
	for runs := range groups(m.runs, place) {
		var threshold, horizon, larger []float64
		kept := 0
		for _, r := range runs {
			t, h := m.left(r)
			threshold, horizon, larger = append(threshold, t), append(horizon, h), append(larger, max(t, h))
			if max(t, h) >= promised {
				kept++
			}
		}
		row(b, runs[0].Machine.Name, runs[0].Incident.Name, fmt.Sprint(len(runs)), lowest(threshold), lowest(horizon), lowest(larger), fraction(kept, len(runs)))
	}
	b.WriteString("\n")
}

// lowest shows the median of percentages with the least one.
func lowest(of []float64) string {
	s := score.NewSpread(of, slices.Min)
	return showPercent(s.Median) + " (" + showPercent(s.Worst) + ")"
}
