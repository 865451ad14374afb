package simulate

import (
	"fmt"
	"io"
	"strings"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// WriteText runs the comparison and writes it as text: the observations and both decisions of each
// step in which they differ, then a summary. It returns the first error of the run or of w.
func (c *Comparison) WriteText(w io.Writer) error {
	if err := c.scenario.writeHead(w); err != nil {
		return err
	}
	summary, err := c.run(func(step *Step, d *Difference) error {
		// The conditions follow from observations alone, so both runs have the same.
		head := headline(step, c.scenario.Policy, d.Helps.Conditions)
		_, err := io.WriteString(w, head+d.Helps.text(eviction.Helps)+d.Kubelet.text(eviction.AsKubelet))
		return err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, summary.text())
	return err
}

// text describes a decision and its reason, behind the name of the choice.
func (c *Chosen) text(of eviction.Choice) string {
	var b strings.Builder
	name := of.String()
	addLine := func(format string, args ...any) {
		fmt.Fprintf(&b, "%s%-8s %s\n", indent, name, fmt.Sprintf(format, args...))
		name = ""
	}
	for _, f := range c.Failed {
		addLine("could not evict %s: %s", f.Pod, f.Error)
	}
	switch e := c.Evicted; {
	case e != nil:
		addLine(evictFormat, e.Pod, e.Signal, e.GracePeriodSeconds)
	case c.Signal != "":
		addLine("no eviction for %s", c.Signal)
	default:
		addLine("no eviction")
	}
	addLine("  %s", c.Reason)
	return b.String()
}

func (s *Summary) text() string {
	var b strings.Builder
	row := func(what string, helps, kubelet any) {
		fmt.Fprintf(&b, "%-23s %-9v %v\n", what, helps, kubelet)
	}
	if s.Different > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d of %d steps differ\n\n", s.Different, s.Steps)
	row("", eviction.Helps, eviction.AsKubelet)
	row("evictions", s.Helps.Evictions, s.Kubelet.Evictions)
	row("pods spared", len(s.Helps.Spared), len(s.Kubelet.Spared))
	for c := range signals.Condition(signals.ConditionCount) {
		name := c.String()
		if helps, kubelet := s.Helps.Conditions[name], s.Kubelet.Conditions[name]; helps != "0s" || kubelet != "0s" {
			row(name+" True for", helps, kubelet)
		}
	}
	row("steps with exhaustion", s.Helps.ExhaustedSteps, s.Kubelet.ExhaustedSteps)
	for _, only := range []struct {
		of   eviction.Choice
		pods []string
	}{{eviction.Helps, s.Helps.EvictedOnly}, {eviction.AsKubelet, s.Kubelet.EvictedOnly}} {
		if len(only.pods) > 0 {
			fmt.Fprintf(&b, "evicted only with %s: %s\n", only.of, strings.Join(only.pods, ", "))
		}
	}
	return b.String()
}
