package recordingcmd

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Decisions returns the command that lists stored decisions.
func (p *Program) Decisions() *cobra.Command {
	from := source{p, p.DecisionDir}
	var begin, end, output string
	example := "  # Those of a recording\n  " + p.Name + " recording decisions incident.recording"
	if from.dir != "" {
		example += `

  # Those of a day
  plimsoll recording decisions --begin=24h

  # As lines of the decision log, of the node of a pod
  kubectl -n plimsoll-system exec POD -- /plimsoll recording decisions -o json > decisions.jsonl`
	}
	cmd := &cobra.Command{
		Use:   "decisions " + from.usage(),
		Short: "List or export the decisions that an agent has stored on its node",
		Long: `Prints the stored lines of the decision log, the oldest first. -o text, the default,
lists them; -o json exports them as they are in the decision log. The decisions of a
recording can be read too: name its directory, or a file of plimsoll recording export.

A time is in the form of RFC 3339, such as 2026-03-01T12:00:00Z, or a duration
before now, such as 15m.`,
		Example: example,
		Args:    from.check,
	}
	from.addFlag(cmd, "decision-log-dir")
	cmd.Flags().StringVar(&begin, "begin", "", "begin of the time to print. Empty: that of the stored decisions")
	cmd.Flags().StringVar(&end, "end", "", "end of the time to print. Empty: that of the stored decisions")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "output format: text, or json with the lines of the decision log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d := decisions{asLines: output == "json"}
		if output != "text" && !d.asLines {
			return p.Invalid(fmt.Errorf("--output: %q: must be text or json", output))
		}
		var err error
		if d.begin, d.end, err = parseTime(begin, end, time.Now()); err != nil {
			return p.Invalid(err)
		}
		data, _, err := from.read(cmd, args)
		if err != nil {
			return err
		}
		err = d.print(data, cmd.OutOrStdout(), cmd.ErrOrStderr())
		switch {
		case errors.Is(err, recording.ErrNoRecording):
			return p.Invalid(err)
		case errors.Is(err, errNoDecision) && p.DecisionDir != "":
			return fmt.Errorf("%w, or the --decision-log-dir of the agent", err)
		}
		return err
	}
	return cmd
}

var errNoDecision = errors.New("print the decisions of a recording: none is stored in the given time: give another time")

// decisions are the stored decisions of a time; a zero begin or end is that of the recording.
type decisions struct {
	begin, end time.Time
	asLines    bool
}

// print prints the decisions, and what is unreadable to notes. Returns an error if there is none.
func (d *decisions) print(data []byte, out, notes io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<20)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n, frames, r := 0, 0, recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		frames++
		if e.Decision == nil || !d.begin.IsZero() && e.Time().Before(d.begin) || !d.end.IsZero() && e.Time().After(d.end) {
			continue
		}
		if n++; d.asLines {
			writeLine(w, e.Decision.Line)
			continue
		}
		if n == 1 {
			fmt.Fprintln(table, "TIME\tDECISION\tPOD\tSUBJECT\tREASON")
		}
		fmt.Fprintf(table, "%s\t%s\n", Moment(e.Time()), rowOf(e.Decision.Line))
	}
	if damage := r.Damage(); damage.Any() {
		fmt.Fprintf(notes, "not readable: %s\n", &damage)
	}
	switch {
	case frames == 0:
		return fmt.Errorf("print the decisions of a recording: %w", recording.ErrNoRecording)
	case n == 0:
		return errNoDecision
	}
	if err := errors.Join(table.Flush(), w.Flush()); err != nil {
		return fmt.Errorf("print the decisions of a recording: %w", err)
	}
	return nil
}

// writeLine writes a decision on one line, of any version of the agent.
func writeLine(w *bufio.Writer, line json.RawMessage) {
	var b bytes.Buffer
	if json.Compact(&b, line) == nil { // the decoder has checked it
		b.WriteByte('\n')
		_, _ = w.Write(b.Bytes()) // Flush returns the error
	}
}

// rowOf returns the columns of a decision behind its time.
func rowOf(line json.RawMessage) string {
	var d struct{ Decision, Pod, Signal, Threshold, LimitOf, Reason string }
	if err := json.Unmarshal(line, &d); err != nil {
		d.Decision, d.Reason = "?", "it has the form of another version: see -o json"
	}
	columns := []string{d.Decision, d.Pod, cmp.Or(d.Threshold, d.Signal, d.LimitOf), d.Reason}
	for i := range columns {
		if columns[i] = recording.Printable(strings.Join(strings.Fields(columns[i]), " ")); columns[i] == "" {
			columns[i] = "-"
		}
	}
	return strings.Join(columns, "\t")
}
