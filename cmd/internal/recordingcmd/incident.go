package recordingcmd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/report"
)

// incidentReport are the flags of report incident.
type incidentReport struct {
	program      *Program
	begin, end   string
	since        time.Duration
	output, file string
	recording    string
}

// Incident returns the command that makes a report of an incident.
func (p *Program) Incident() *cobra.Command {
	r := incidentReport{program: p}
	example := "  # Of an export\n  " + p.Name + " report incident --recording=incident.recording -f incident.html"
	if p.RecordingDir != "" {
		example += `

  # Of the last hour on this node
  plimsoll report incident --since=1h -f incident.html

  # Of a time, as Markdown
  plimsoll report incident --begin=2026-03-01T12:00:00Z --end=2026-03-01T12:10:00Z -o md

  # Of the node of a pod
  kubectl -n plimsoll-system exec POD -- /plimsoll report incident --since=1h > incident.html`
	}
	cmd := &cobra.Command{
		Use:   "incident",
		Short: "Show what happened on a node in a time, as one file",
		Long: `Makes a report of what a recording has about a time: what happened in plain
sentences, the signals with their thresholds, the checks and decisions, the memory
of pods, the ranking at each eviction with the reason for the choice, what a
kubelet would have done, OOM kills of the kernel, and what is missing.

-o html, the default, is a page for any browser, also on a telephone and printed.
-o md is Markdown with tables in place of pictures. -o svg is one picture. Each is
one file that refers to no other. Times in it are UTC.

A time is in the form of RFC 3339, such as 2026-03-01T12:00:00Z, or a duration
before now, such as 15m. Without any, the report is about the whole recording.

The report has the names, namespaces, priorities, requests and usage of pods. It has
no command line and no environment, since none is recorded.

Exit status: 0 written, 1 the recording can not be read, or nothing is recorded in
that time, 2 a flag is not valid, or the file is no recording.`,
		Example: example,
		Args:    p.noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&r.begin, "begin", "", "begin of the time. Empty: that of the recording")
	f.StringVar(&r.end, "end", "", "end of the time. Empty: that of the recording")
	f.DurationVar(&r.since, "since", 0, "duration of the time until now, in place of --begin and --end")
	f.StringVarP(&r.output, "output", "o", "html", "form of the report: html, md, or svg")
	f.StringVarP(&r.file, "file", "f", "", "file to write. Empty: standard output")
	what := "recording to read: the directory of an agent, or a file of plimsoll recording export. - is standard input"
	if p.RecordingDir == "" {
		what = "`file` of plimsoll recording export to read. - is standard input"
	}
	f.StringVar(&r.recording, "recording", p.RecordingDir, what)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return r.run(cmd, time.Now()) }
	return cmd
}

// run makes the report and writes it.
func (r *incidentReport) run(cmd *cobra.Command, now time.Time) error {
	options, render, err := r.compile(now)
	if err != nil {
		return r.program.Invalid(err)
	}
	data, err := r.program.Read(cmd.InOrStdin(), r.recording)
	if err != nil {
		return err
	}
	incident, err := report.Read(data, options)
	switch {
	case errors.Is(err, recording.ErrNoRecording):
		return r.program.Invalid(fmt.Errorf("report %s: %w", r.recording, err))
	case errors.Is(err, report.ErrNothing):
		return fmt.Errorf("report %s: %w: %s recording info shows what is recorded", r.recording, err, r.program.Name)
	case err != nil:
		return fmt.Errorf("report %s: %w", r.recording, err)
	}
	if r.file == "" {
		_, err = cmd.OutOrStdout().Write(render(incident))
	} else {
		err = os.WriteFile(r.file, render(incident), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// compile returns the time and the form of the report. Returns an error for a flag that is not valid.
func (r *incidentReport) compile(now time.Time) (o report.Options, render func(*report.Incident) []byte, err error) {
	if r.recording == "" {
		return o, nil, errors.New("--recording: give a file of plimsoll recording export")
	}
	switch r.output {
	case "html":
		render = (*report.Incident).HTML
	case "md":
		render = (*report.Incident).Markdown
	case "svg":
		render = (*report.Incident).SVG
	default:
		return o, nil, fmt.Errorf("--output: %q: must be html, md or svg", r.output)
	}
	o.Begin, o.End, err = ParsePeriod(r.begin, r.end, r.since, now)
	return o, render, err
}

// ParsePeriod returns the begin and the end of a time, by --begin and --end or by --since, zero for the whole time.
// Returns an error if the flags are invalid.
func ParsePeriod(begin, end string, since time.Duration, now time.Time) (from, to time.Time, err error) {
	switch {
	case since < 0:
		return from, to, fmt.Errorf("--since: %s: must be at least 0", since)
	case since > 0 && (begin != "" || end != ""):
		return from, to, errors.New("--since stands for --begin and --end: give either")
	case since > 0:
		return now.Add(-since), now, nil
	}
	return parseTime(begin, end, now)
}
