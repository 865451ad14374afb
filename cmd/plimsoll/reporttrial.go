package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/report"
	"plimsoll.dev/plimsoll/internal/report/trial"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// trialReport are the flags of plimsoll report trial.
type trialReport struct {
	begin, end   string
	since        time.Duration
	window       time.Duration
	nodes        []string
	output, file string
	allowDamage  bool
}

func reportTrialCommand() *cobra.Command {
	var r trialReport
	cmd := &cobra.Command{
		Use:   "trial FILE|DIR...",
		Short: "Compare what Plimsoll decided with what kubelets and the kernel did",
		Long: `Compares the evictions that Plimsoll decided on a set of nodes, in dry run or armed,
with what others did at that time: evictions of the same pod, of another pod and
why, OOM kills of the kernel, and those that would have been avoided. What the
records do not show is unknown, and counts as nothing else.

A FILE is a recording of plimsoll recording export, or the output of plimsoll
recording decisions -o json in a file NODE.jsonl. A DIR has such files, with the
suffixes .recording and .jsonl, or is the directory of an agent. Evictions by other
programs are in recordings only. A record counts once, in however many files it is.

A time is in the form of RFC 3339, such as 2026-03-01T12:00:00Z, or a duration
before now, such as 24h. Times in the report are UTC. Each row has the file and the
byte of its record; plimsoll recording decisions shows it by its time.

Exit status: 0 written, 1 a file can not be read, or no record is of the given
nodes, 2 a flag is not valid, or a file is malformed.`,
		Example: `  plimsoll report trial trial/
  plimsoll report trial --since=168h -o html -f trial.html trial/
  plimsoll report trial -o json trial/ | jq '.decisions[] | select(.outcome == "plimsoll-only")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalidError{errors.New("plimsoll report trial takes the files of recordings, or directories with them; none was given")}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.begin, "begin", "", "begin of the time to compare. Empty: that of the records")
	f.StringVar(&r.end, "end", "", "end of the time to compare. Empty: that of the records")
	f.DurationVar(&r.since, "since", 0, "duration of the time until now, in place of --begin and --end")
	f.DurationVar(&r.window, "window", trial.DefaultWindow, "time before and after a decision in which another act counts as one for the same pressure")
	f.StringSliceVar(&r.nodes, "nodes", nil, "nodes to compare, separated by commas. Empty: all")
	f.StringVarP(&r.output, "output", "o", "text", "form of the report: text, json, yaml, md, or html")
	f.StringVarP(&r.file, "file", "f", "", "file to write. Empty: standard output")
	f.BoolVar(&r.allowDamage, "allow-damage", false, "use the rest of damaged files. What is near the damage is unknown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd, args, time.Now()) }
	return cmd
}

// trialForms render the report of a trial.
var trialForms = map[string]func(*trial.Report) ([]byte, error){
	"text": func(r *trial.Report) ([]byte, error) { return report.TrialText(r), nil },
	"md":   func(r *trial.Report) ([]byte, error) { return report.TrialMarkdown(r), nil },
	"html": func(r *trial.Report) ([]byte, error) { return report.TrialHTML(r), nil },
	"yaml": func(r *trial.Report) ([]byte, error) { return strictyaml.Marshal(r) },
	"json": func(r *trial.Report) ([]byte, error) {
		var b strings.Builder
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		err := encoder.Encode(r)
		return []byte(b.String()), err
	},
}

// options returns what is compared. Returns an error for a flag that is not valid.
func (r *trialReport) options(now time.Time) (o trial.Options, err error) {
	if r.window <= 0 {
		return o, fmt.Errorf("--window: %s: must be above 0", r.window)
	}
	if o.Begin, o.End, err = recordingcmd.ParsePeriod(r.begin, r.end, r.since, now); err != nil {
		return o, err
	}
	o.Window, o.Nodes = r.window, r.nodes
	return o, nil
}

// run compares the records and writes the report.
func (r *trialReport) run(cmd *cobra.Command, paths []string, now time.Time) error {
	o, err := r.options(now)
	if err != nil {
		return invalidError{err}
	}
	render, known := trialForms[r.output]
	if !known {
		return invalidError{fmt.Errorf("--output: %q: must be text, json, yaml, md or html", r.output)}
	}
	sources, err := findSources(paths)
	if err != nil {
		return err
	}
	reading, progress := trial.NewReading(o), newProgress(cmd.ErrOrStderr(), "recordings read", len(sources))
	for n, s := range sources {
		if err := r.add(reading, &s); err != nil {
			return explainMalformed(err)
		}
		progress.done(n + 1)
	}
	found, err := reading.Report()
	if err != nil {
		return err
	}
	if len(found.Nodes) == 0 {
		return fmt.Errorf("compare the records of nodes: none is of %s: plimsoll recording info names the node of a recording", strings.Join(r.nodes, ", "))
	}
	text, err := render(found)
	if err == nil && r.file == "" {
		_, err = cmd.OutOrStdout().Write(text)
	} else if err == nil {
		err = os.WriteFile(r.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// add adds the records of a source.
func (r *trialReport) add(reading *trial.Reading, s *source) error {
	return s.each(func(file string, data []byte) error {
		var err error
		if s.isLines {
			err = reading.AddDecisions(file, s.node(), data)
		} else {
			err = reading.AddRecording(file, data)
		}
		if _, malformed := errors.AsType[*recording.MalformedError](err); malformed && r.allowDamage && !errors.Is(err, recording.ErrNoRecording) {
			return nil
		}
		return err
	})
}
