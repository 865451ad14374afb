package simulate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// Explanation is what a comparison knows and assumes.
const Explanation = `
Known: what was observed at the recorded checks, and the usage of pods at their last measurement.
Assumed:
- The end of a pod frees its memory without page cache at once, and the pod does not come back to this node.
- A pod that only the agent evicted lives on. It keeps its size, or goes on growing as before its end: what
  happens lies between the two, unless it grows faster than before. A pod that replaced it runs beside it.
- A kill succeeds, and a soft eviction takes no time. Garbage collection, disks and PIDs, and pods above limits of
  their own are as recorded.
- OOM kills are as recorded, but for those for the memory of the node or of all pods. If pods keep their size, any
  memory more than was recorded avoids one. If they go on growing, only the missing amount does, and only if a
  decision in dry run in the minute before the kill shows that amount.
- Between recorded checks nothing is decided: where memory was far from the thresholds of the recording, early
  checks are not recorded, so that a higher threshold may act up to a monitoring period earlier than here.
`

// rounded rounds a time to seconds, and a shorter one to milliseconds.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// WriteText writes the comparison as a table, with the evictions and what is assumed. It returns the
// first error of w.
func (c *Counterfactual) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "checks: %d, from %s to %s\n\n", c.Checks, c.From.UTC().Format(time.RFC3339), c.To.UTC().Format(time.RFC3339))
	courses := []*Course{&c.Recorded, &c.Kept, &c.Grown}
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\trecorded\tother, pods keep their size\tother, pods go on growing")
	row := func(name string, of func(*Course) string) {
		fmt.Fprint(table, name)
		for _, course := range courses {
			fmt.Fprint(table, "\t", of(course))
		}
		fmt.Fprintln(table)
	}
	row("pods evicted", func(o *Course) string { return fmt.Sprint(len(o.Evictions)) })
	row("checks that spared pods", func(o *Course) string { return fmt.Sprint(o.Spared) })
	for condition := range signals.Condition(signals.ConditionCount) {
		row(condition.String(), func(o *Course) string { return rounded(o.Pressure[condition]).String() })
	}
	row("least memory left", func(o *Course) string {
		if !o.Least.Known {
			return "unknown"
		}
		return fmt.Sprintf("%dMi", o.Least.Value>>20)
	})
	row("memory exhausted", func(o *Course) string {
		if o.Exhausted.IsZero() {
			return "no"
		}
		return "at " + o.Exhausted.UTC().Format(time.TimeOnly)
	})
	row("OOM kills of the node", func(o *Course) string { return fmt.Sprint(o.Kills) })
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write a comparison: %w", err)
	}
	if c.OOMKills != recording.Unknown {
		fmt.Fprintf(&b, "processes killed by the kernel's OOM killer, as recorded: %d\n", c.OOMKills)
	}
	for i, name := range []string{"recorded", "other configuration, pods keep their size", "other configuration, pods go on growing"} {
		fmt.Fprintf(&b, "\n%s:\n", name)
		for _, e := range courses[i].Evictions {
			early := ""
			if e.Early {
				early = ", in an early check"
			}
			fmt.Fprintf(&b, "  %s  %s for %s%s\n", e.At.UTC().Format(time.RFC3339), e.Pod, e.Cause, early)
		}
		if len(courses[i].Evictions) == 0 {
			b.WriteString("  no eviction\n")
		}
	}
	b.WriteString(Explanation)
	if c.Damage.Any() {
		fmt.Fprintf(&b, "Not readable: %s\n", &c.Damage)
	}
	if _, err := io.WriteString(w, recording.Printable(b.String())); err != nil {
		return fmt.Errorf("write a comparison: %w", err)
	}
	return nil
}
