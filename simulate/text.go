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
	fmt.Fprintf(w, "%s\n", s.heading())
	for _, remark := range s.Remarks {
		fmt.Fprintf(w, "%s\n", remark)
	}
	fmt.Fprintln(w)
	return s.Run(func(step *Step, o *agent.Outcome, m *eviction.Machine) error {
		_, err := io.WriteString(w, paragraph(step, o, m))
		return err
	})
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

// indent aligns decisions below observations.
const indent = "          "

func paragraph(step *Step, o *agent.Outcome, m *eviction.Machine) string {
	var b strings.Builder
	kind := ""
	if step.Kind == signals.Early {
		kind = "(early check) "
	}
	if step.Restart {
		kind += "(agent restarted) "
	}
	fmt.Fprintf(&b, "%8s  %s%s", seconds(step.At), kind, observed(step, m.Policy()))
	if names := o.Verdict.Conditions.Names(); len(names) > 0 {
		fmt.Fprintf(&b, "   [%s]", strings.Join(names, " "))
	}
	b.WriteString("\n")
	addLine := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	if o.Verdict.Reason != eviction.NothingMet {
		addLine("%s", m.Explain(&o.Verdict, o.Snapshot))
	}
	if len(o.Collected) > 0 {
		addLine("garbage collected: %s", joined(o.Collected))
	}
	if o.Recovered {
		addLine("recovered: no pod is evicted")
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
	switch e := o.Evicted; {
	case e != nil:
		addLine("EVICT %s for %s, grace period %ds", e.Pod.Key(), e.Cause, e.GracePeriod)
		addLine("  %s", strings.TrimSpace(e.Message))
	case o.NoneHelps(), o.Limit.By != limiter.None: // printed above
	case o.Verdict.Target != nil && !o.Recovered:
		addLine("no pod can be evicted")
	}
	return b.String()
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
