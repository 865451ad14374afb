package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/result"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
)

// event is one line of a timeline.
type event struct {
	at   float64 // ms
	text string
}

// Timeline writes what happened in one run in the order of time, so that it can be compared with the kernel's
// log and with that of the contestant. Returns the error of the writer.
func Timeline(to io.Writer, r *result.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s against %s, seed %d\n%s\nThe node is %s.\n", r.Contestant.Name, r.Incident.Name, r.Seed, r.Machine, nodeOf(r.Arena))
	switch {
	case r.Failed != "":
		fmt.Fprintf(&b, "Failed: %s\n", r.Failed)
	case r.Observation == nil:
		fmt.Fprintf(&b, "Not run: %s\n", r.Unavailable)
	default:
		timeline(&b, r)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// Compare writes the figures of two runs beside each other. Runs of one incident with one seed have the same plan, and differ
// by the noise of the machine. Returns the error of the writer.
func Compare(to io.Writer, one, two *result.Result) error {
	var b strings.Builder
	line := func(name string, show func(*result.Result) string) {
		fmt.Fprintf(&b, "%-24s %-32s %s\n", name, show(one), show(two))
	}
	line("run", func(r *result.Result) string {
		return fmt.Sprintf("%s, %s, seed %d", r.Incident.Name, r.Contestant.Name, r.Seed)
	})
	line("machine", func(r *result.Result) string { return r.Machine.Name })
	line("plan", func(r *result.Result) string {
		if r.Observation == nil {
			return "none"
		}
		return r.Observation.Plan
	})
	line("verdict", func(r *result.Result) string {
		if r.Score == nil {
			return "none"
		}
		return string(r.Score.Verdict)
	})
	for _, m := range metrics {
		line(m.Name, func(r *result.Result) string {
			if r.Score == nil {
				return "–"
			}
			c := score.Summarize([]score.Score{*r.Score})
			return m.Show(&c)
		})
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func timeline(b *strings.Builder, r *result.Result) {
	o := r.Observation
	fmt.Fprintf(b, "Memory %s, threshold %s, plan %s\n\n", showBytes(float64(o.Total)), showBytes(float64(o.Threshold)), o.Plan)
	for _, e := range events(o) {
		fmt.Fprintf(b, "%9.3f s  %s\n", e.at/1000, e.text)
	}
	fmt.Fprintf(b, "\n%s", r.Score.Verdict)
	if r.Score.Why != "" {
		b.WriteString(": " + r.Score.Why)
	}
	fmt.Fprintf(b, "\n%d kills by the kernel, %d pods ended by the contestant, bystanders %v\n", r.Score.KernelKills, r.Score.Ended, r.Score.Bystanders)
	fmt.Fprintf(b, "least left %s, heartbeat gap %s, neighbour %s of its rate, p99 %s instead of %s\n", showBytes(float64(o.Least)),
		showTime(o.Heartbeat.MaxGap), showPercent(r.Score.Isolation), showTime(o.Neighbour.During.P99), showTime(o.Neighbour.Quiet.P99))
	if c := o.Contestant; c != nil && c.Output != "" {
		fmt.Fprintf(b, "\nThe end of the contestant's output:\n%s\n", c.Output)
	}
	if len(r.KernelLog) > 0 {
		fmt.Fprintf(b, "\nThe kernel's log, with microseconds since the boot:\n%s\n", strings.Join(r.KernelLog, "\n"))
	}
}

// events returns what happened, in the order of time.
func events(o *score.Observation) (all []event) {
	add := func(at float64, format string, args ...any) {
		all = append(all, event{at, fmt.Sprintf(format, args...)})
	}
	add(0, "the incident begins")
	add(o.Duration, "the incident ends")
	if o.Crossed != nil {
		add(*o.Crossed, "less than the threshold is available")
	}
	if o.Exhausted != nil {
		add(*o.Exhausted, "nothing is available")
	}
	for _, p := range o.Pods {
		name := p.Name
		if p.UID != "" {
			name += " (" + p.UID + ")"
		}
		for _, d := range p.Deaths {
			add(d.At, "process %d of %s ended by %s; least available until then %s", d.PID, name, cause(d), showLeast(d.Least))
		}
		for _, at := range p.Lost {
			add(at, "a signal ended a child in %s", name)
		}
		for _, k := range p.Kills {
			add(k.At, "the kernel has killed %d processes of %s; least available until then %s", k.Count, name, showLeast(k.Least))
		}
		if p.Stopped {
			add(o.Duration, "%s is stopped", name)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

func cause(d score.Death) string {
	if d.Signal != 0 {
		return fmt.Sprintf("signal %d", d.Signal)
	}
	return fmt.Sprintf("exit with status %d", d.Code)
}

// showLeast shows an amount that is unknown before the begin.
func showLeast(n int64) string {
	if n == math.MaxInt64 {
		return "unknown"
	}
	return showBytes(float64(n))
}
