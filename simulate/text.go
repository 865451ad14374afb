package simulate

import (
	"fmt"
	"io"
	"strings"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// WriteText runs the scenario and writes it as text: a line for every step with its observations,
// and below it the decisions and their reasons. It returns the first error of the run or of w.
func (s *NodeScenario) WriteText(w io.Writer) error {
	if err := s.writeHead(w); err != nil {
		return err
	}
	return s.Run(func(step *Step, o *agent.Outcome, m *eviction.Machine) error {
		_, err := io.WriteString(w, paragraph(step, o, m))
		return err
	})
}

// writeHead writes the thresholds, and the ignored parts of the configuration.
func (s *NodeScenario) writeHead(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n\n", strings.Join(append([]string{s.heading()}, s.Remarks...), "\n"))
	return err
}

func (s *NodeScenario) heading() string {
	if len(s.Policy.Thresholds) == 0 {
		return "no eviction thresholds"
	}
	var lines []string
	for _, t := range s.Policy.Thresholds {
		line := t.String()
		if t.MinReclaim != (eviction.Value{}) {
			line += ", reclaim " + t.MinReclaim.String() + " more"
		}
		lines = append(lines, line)
	}
	return "thresholds: " + strings.Join(lines, "\n            ")
}

const (
	// indent aligns decisions below observations.
	indent       = "          "
	collecting   = "garbage is being collected: no pod is evicted yet"
	evictFormat  = "EVICT %s for %s, grace period %ds"
	recovered    = "recovered: no pod is evicted"
	nonePossible = "no pod can be evicted"
)

// headline returns the time, the observations and the conditions of a step.
func headline(step *Step, p *eviction.Policy, conditions []string) string {
	kind := ""
	if step.Kind == signals.Early {
		kind = "(early check) "
	}
	if step.Restart {
		kind += "(agent restarted) "
	}
	text := fmt.Sprintf("%8s  %s%s", seconds(step.At), kind, observed(step, p))
	if len(conditions) > 0 {
		text += fmt.Sprintf("   [%s]", strings.Join(conditions, " "))
	}
	return text + "\n"
}

func paragraph(step *Step, o *agent.Outcome, m *eviction.Machine) string {
	var b strings.Builder
	b.WriteString(headline(step, m.Policy(), o.Verdict.Conditions.Names()))
	addLine := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	if o.Verdict.Reason != eviction.NothingMet {
		addLine("%s", m.Explain(&o.Verdict, o.Snapshot))
	}
	if len(o.Collected) > 0 {
		addLine("garbage collected: %s", joined(o.Collected))
	}
	if o.Blocked != "" {
		addLine("blocked: %s", o.Blocked)
	}
	if o.Collecting {
		addLine(collecting)
	}
	if o.Recovered {
		addLine(recovered)
	}
	for i := range o.Ranking {
		addLine("  %d. %-24s %s", i+1, o.Ranking[i].Pod.Key(), o.PlaceReason(&o.Ranking[i]))
	}
	if why := o.SpareReason(); why != "" {
		addLine("%s", why)
	}
	if why := o.LimitReason(); why != "" {
		addLine("limited: %s", why)
	}
	for _, f := range o.Failed {
		addLine("could not evict %s: %v", f.Pod.Key(), f.Err)
	}
	if e := o.Evicted; e != nil {
		addLine(evictFormat, e.Pod.Key(), e.Cause, e.GracePeriod)
		addLine("  %s", strings.TrimSpace(e.Message))
	}
	if noneLeft(o) {
		addLine(nonePossible)
	}
	return b.String()
}

// noneLeft reports whether a threshold was acted for, no pod was left to evict, and no other reason
// explains it.
func noneLeft(o *agent.Outcome) bool {
	explained := o.NoneHelps() || o.Limit.By != limiter.None || o.Recovered || o.Blocked != "" || o.Collecting
	return o.Evicted == nil && o.Verdict.Target != nil && !explained
}

// observed lists the configured signals. Signals that follow another one are omitted, as their
// values are the same.
func observed(step *Step, p *eviction.Policy) string {
	var parts []string
	for s := range signals.All {
		if _, follows := s.ContainerfsFollows(p.Layout); !p.Configured.Has(s) || follows && p.Layout != signals.Split {
			continue
		}
		o := step.Node[s]
		if !o.Known {
			parts = append(parts, s.String()+" unknown")
			continue
		}
		unit := s.Definition().Unit
		parts = append(parts, fmt.Sprintf("%s %s of %s", s, signals.Format(o.Available, unit), signals.Format(o.Capacity, unit)))
	}
	if len(parts) == 0 {
		return "no signal is watched"
	}
	return strings.Join(parts, ", ")
}

func joined[T fmt.Stringer](items []T) string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.String()
	}
	return strings.Join(names, ", ")
}
