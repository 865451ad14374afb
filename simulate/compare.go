package simulate

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// Comparison runs a scenario with either choice of the pod to evict, and writes the steps with
// different decisions and a summary. Both runs have the observations of the file: the end of a pod
// changes none of them.
type Comparison struct {
	scenario *NodeScenario
}

// Compare returns the comparison of the scenario. Its own choice does not matter.
func (s *NodeScenario) Compare() *Comparison { return &Comparison{s} }

// Difference is the output of -o json for a step with different decisions, with its keys in this
// order.
type Difference struct {
	At      string `json:"at"`
	Helps   Chosen `json:"helps"`
	Kubelet Chosen `json:"kubelet"`
}

// Chosen is the decision of a step with one choice. All fields but Reason are those of [Line].
type Chosen struct {
	Conditions []string     `json:"conditions"`
	Signal     string       `json:"signal"`
	Evicted    *EvictedLine `json:"evicted"`
	Failed     []FailedLine `json:"failed"`
	Reason     string       `json:"reason"`
}

// SummaryLine is the last line of -o json.
type SummaryLine struct {
	Summary *Summary `json:"summary"`
}

// Summary has the totals of a comparison.
type Summary struct {
	Steps     int   `json:"steps"`
	Different int   `json:"different"`
	Helps     Total `json:"helps"`
	Kubelet   Total `json:"kubelet"`
}

// Total is the result of a whole run.
type Total struct {
	Evictions   int      `json:"evictions"`
	Evicted     []string `json:"evicted"`     // each pod once, in order of its first eviction
	EvictedOnly []string `json:"evictedOnly"` // those that the other choice never evicts
	Spared      []string `json:"spared"`      // passed over in some step, and never evicted
	// Conditions is how long each condition was True, from step to step. The last step adds nothing.
	Conditions     map[string]string `json:"conditions"`
	ExhaustedSteps int               `json:"exhaustedSteps"`
}

// WriteJSON runs the comparison and writes one JSON object per line: a [Difference] for each step
// with different decisions, then a [SummaryLine]. It returns the first error of the run or of w.
func (c *Comparison) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	summary, err := c.run(func(_ *Step, d *Difference) error { return encoder.Encode(d) })
	if err != nil {
		return err
	}
	return encoder.Encode(SummaryLine{summary})
}

// run runs the scenario with both choices side by side, and calls each for every step with different
// decisions. It returns the first error of each, or of a restart.
func (c *Comparison) run(each func(*Step, *Difference) error) (*Summary, error) {
	helps, kubelet := newSide(c.scenario, eviction.Helps), newSide(c.scenario, eviction.AsKubelet)
	summary := &Summary{Steps: len(c.scenario.Steps)}
	for i := range c.scenario.Steps {
		step := &c.scenario.Steps[i]
		d := Difference{At: seconds(step.At)}
		var err error
		if d.Helps, err = helps.next(step); err != nil {
			return nil, err
		}
		if d.Kubelet, err = kubelet.next(step); err != nil {
			return nil, err
		}
		if d.Helps.equal(&d.Kubelet) {
			continue
		}
		summary.Different++
		if err := each(step, &d); err != nil {
			return nil, err
		}
	}
	summary.Helps, summary.Kubelet = helps.total(kubelet), kubelet.total(helps)
	return summary, nil
}

// equal reports whether the decisions are equal. Their reasons may differ.
func (c *Chosen) equal(other *Chosen) bool {
	return c.Signal == other.Signal && c.victim() == other.victim() &&
		slices.Equal(c.Failed, other.Failed) && slices.Equal(c.Conditions, other.Conditions)
}

// victim is an evicted pod and the signal that it was evicted for.
type victim struct{ pod, signal string }

func (c *Chosen) victim() victim {
	if c.Evicted == nil {
		return victim{}
	}
	return victim{c.Evicted.Pod, c.Evicted.Signal}
}

// side is the run with one choice, and its totals so far.
type side struct {
	run             *nodeRun
	at              time.Duration // of the last step
	conditions      signals.ConditionSet
	lasted          [signals.ConditionCount]time.Duration
	evictions       int
	evicted, spared podNames
	exhausted       int
}

func newSide(s *NodeScenario, c eviction.Choice) *side {
	policy, chosen := *s.Policy, *s
	policy.Choice, chosen.Policy = c, &policy
	return &side{run: chosen.begin()}
}

// next simulates the next step.
func (s *side) next(step *Step) (Chosen, error) {
	o, err := s.run.next(step)
	if err != nil {
		return Chosen{}, err
	}
	for c := range s.lasted {
		if s.conditions.Has(signals.Condition(c)) {
			s.lasted[c] += step.At - s.at
		}
	}
	s.at, s.conditions = step.At, o.Verdict.Conditions
	if o.Evicted != nil {
		s.evictions++
		s.evicted.add(o.Evicted.Pod.Key())
	}
	for _, pod := range o.SparedPods() {
		s.spared.add(pod.Key())
	}
	if exhausted(step, o, s.run.machine) {
		s.exhausted++
	}
	l := lineOf(step.At, o)
	return Chosen{l.Conditions, l.Signal, l.Evicted, l.Failed, reasonOf(o, s.run.machine)}, nil
}

func (s *side) total(other *side) Total {
	t := Total{
		Evictions:      s.evictions,
		Evicted:        s.evicted.without(nil),
		EvictedOnly:    s.evicted.without(other.evicted.known),
		Spared:         s.spared.without(s.evicted.known),
		Conditions:     map[string]string{},
		ExhaustedSteps: s.exhausted,
	}
	for c := range s.lasted {
		t.Conditions[signals.Condition(c).String()] = seconds(s.lasted[c])
	}
	return t
}

// exhausted reports whether a signal with a hard threshold was exhausted in a step, or exhaustion of
// memory imminent.
func exhausted(step *Step, o *agent.Outcome, m *eviction.Machine) bool {
	seen, p := &step.Node, m.Policy()
	if len(o.Collected) > 0 {
		seen = &step.AfterReclaim
	}
	for i := range p.Thresholds {
		if t := &p.Thresholds[i]; t.Hard() && t.Exhausted(&seen[t.Signal]) {
			return true
		}
	}
	return m.Imminent(o.Snapshot) != 0
}

// reasonOf explains the decision of a step: the threshold, then the choice of the pod.
func reasonOf(o *agent.Outcome, m *eviction.Machine) string {
	var parts []string
	if o.EndedByStorageLimit {
		parts = append(parts, strings.TrimSpace(o.Evicted.Message))
	} else {
		parts = append(parts, m.Explain(&o.Verdict, o.Snapshot))
	}
	if o.Recovered {
		parts = append(parts, recovered)
	}
	if why := o.SpareReason(); why != "" {
		parts = append(parts, why)
	}
	if why := o.LimitReason(); why != "" {
		parts = append(parts, "limited: "+why)
	}
	for i := range o.Ranking {
		if r := &o.Ranking[i]; o.Evicted != nil && r.Pod == o.Evicted.Pod {
			parts = append(parts, r.Pod.Key()+" "+o.PlaceReason(r))
		}
	}
	if noneLeft(o) {
		parts = append(parts, nonePossible)
	}
	return strings.Join(parts, "; ")
}

// podNames is a list of names, each once.
type podNames struct {
	list  []string
	known map[string]bool
}

func (n *podNames) add(name string) {
	if n.known[name] {
		return
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[name] = true
	n.list = append(n.list, name)
}

// without returns the names that are not among others; never nil.
func (n *podNames) without(others map[string]bool) []string {
	left := []string{}
	for _, name := range n.list {
		if !others[name] {
			left = append(left, name)
		}
	}
	return left
}
