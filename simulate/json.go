package simulate

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
)

// Line is the output of -o json for one step, with its keys in this order.
type Line struct {
	At         string       `json:"at"`
	Conditions []string     `json:"conditions"`
	Met        []string     `json:"met"`
	Unknown    []string     `json:"unknown"`
	Reclaimed  []string     `json:"reclaimed"`
	Signal     string       `json:"signal"`
	Ranking    []string     `json:"ranking"`
	Evicted    *EvictedLine `json:"evicted"`
	Failed     []FailedLine `json:"failed"`
}

// EvictedLine is the pod evicted in a step.
type EvictedLine struct {
	Pod                string            `json:"pod"`
	Signal             string            `json:"signal"`
	GracePeriodSeconds int64             `json:"gracePeriodSeconds"`
	Reason             string            `json:"reason"`
	Message            string            `json:"message"`
	DisruptionTarget   bool              `json:"disruptionTarget"`
	Annotations        map[string]string `json:"annotations"`
}

// FailedLine is a pod that could not be killed in a step.
type FailedLine struct {
	Pod   string `json:"pod"`
	Error string `json:"error"`
}

// WriteJSON runs the scenario and writes one JSON object per line. It returns the first error of
// the run or of w.
func (s *NodeScenario) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return s.Run(func(step *Step, o *agent.Outcome, _ *eviction.Machine) error {
		return encoder.Encode(lineOf(step.At, o))
	})
}

func lineOf(at time.Duration, o *agent.Outcome) Line {
	line := Line{
		At:         seconds(at),
		Conditions: o.Verdict.Conditions.Names(),
		Met:        o.Verdict.GracePassed.Names(),
		Unknown:    o.Verdict.Unknown.Names(),
		Reclaimed:  []string{},
		Ranking:    []string{},
		Failed:     []FailedLine{},
	}
	if o.Verdict.Target != nil && !o.EndedByStorageLimit {
		line.Signal = o.Verdict.Target.Signal.String()
	}
	for _, r := range o.Collected {
		line.Reclaimed = append(line.Reclaimed, r.String())
	}
	for i := range o.Ranking {
		line.Ranking = append(line.Ranking, o.Ranking[i].Pod.Key())
	}
	for _, f := range o.Failed {
		line.Failed = append(line.Failed, FailedLine{f.Pod.Key(), f.Err.Error()})
	}
	if e := o.Evicted; e != nil {
		line.Evicted = &EvictedLine{e.Pod.Key(), e.Cause, e.GracePeriod, eviction.ReasonEvicted,
			e.Message, e.DisruptionTarget, e.Annotations}
	}
	return line
}

// seconds prints a time since the start in seconds, to the millisecond.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', -1, 64) + "s"
}
