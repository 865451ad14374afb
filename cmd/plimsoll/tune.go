package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/internal/tune"
)

// tuning are the flags of plimsoll tune.
type tuning struct {
	signal, values string
	steps          int
	by, config     string
	output, file   string
	all            bool
	allowDamage    bool
}

func tuneCommand() *cobra.Command {
	var t tuning
	cmd := &cobra.Command{
		Use:   "tune FILE|DIR...",
		Short: "Compare thresholds over many recordings: evictions against exhaustion",
		Long: `Replays recordings with several hard thresholds of one signal, and prints those that
are on the front of evictions against exhaustion: no other one evicts as few pods
and exhausts memory as seldom, and is better in one of both. A replay only bounds
what would have happened, as plimsoll simulate --recording --config does: a
threshold is left out only if another one is at least as good by every bound.

A FILE is a recording of plimsoll recording export. A DIR has such files with the
suffix .recording, or is the directory of an agent. Each recording is replayed with
its own last configuration, or with that of --config, and the threshold. Recordings
of one node should not overlap: each eviction counts.

A replay changes memory alone, so that thresholds of disks and PIDs are refused.

Exit status: 0 written, 1 a file can not be read, or replayed, 2 a flag is not
valid, or a file is malformed.`,
		Example: `  plimsoll tune recordings/
  plimsoll tune --values=100Mi,250Mi,500Mi,1Gi --all recordings/
  plimsoll tune --values=50Mi..4Gi --steps=20 -o csv recordings/ > thresholds.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return invalidError{errors.New("plimsoll tune takes the files of recordings, or directories with them; none was given")}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.signal, "signal", signals.MemoryAvailable.String(), "signal of the thresholds: memory.available or allocatableMemory.available")
	f.StringVar(&t.values, "values", tune.DefaultValues, "thresholds, separated by commas: values such as 200Mi or 5%, and ranges such as 50Mi..2Gi")
	f.IntVar(&t.steps, "steps", tune.DefaultSteps, "number of values of a range, with equal ratios")
	f.StringVar(&t.by, "exhaustion", "nodes", "how exhaustion counts for the front: nodes, or time")
	f.StringVar(&t.config, "config", "", "AgentConfiguration to replay with. Empty: the last one in each recording")
	f.StringVarP(&t.output, "output", "o", "text", "output format: text, json, yaml, or csv")
	f.StringVarP(&t.file, "file", "f", "", "file to write. Empty: standard output")
	f.BoolVar(&t.all, "all", false, "print the thresholds that are not on the front too. The other formats have them always")
	f.BoolVar(&t.allowDamage, "allow-damage", false, "use the rest of damaged files")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return t.run(cmd, args) }
	return cmd
}

// compile returns what is compared, with the text of a configuration or nil. Returns an error for a flag or a
// configuration that is not valid.
func (t *tuning) compile(config []byte) (*tune.Tuning, error) {
	o := tune.Options{ByTime: t.by == "time"}
	if t.by != "nodes" && t.by != "time" {
		return nil, fmt.Errorf("--exhaustion: %q: must be nodes or time", t.by)
	}
	var err error
	if o.Signal, err = signals.Parse(t.signal); err != nil {
		return nil, fmt.Errorf("--signal: %w", err)
	}
	if o.Values, err = tune.Values(t.values, t.steps); err != nil {
		return nil, fmt.Errorf("--values: %w", err)
	}
	if config != nil {
		if o.Config, err = agentconfig.ParseFile(config); err != nil {
			return nil, fmt.Errorf("%s: %w", t.config, err)
		}
	}
	return tune.New(o)
}

// run replays the recordings and writes the comparison.
func (t *tuning) run(cmd *cobra.Command, paths []string) error {
	render, known := t.forms()[t.output]
	if !known {
		return invalidError{fmt.Errorf("--output: %q: must be text, json, yaml or csv", t.output)}
	}
	var config []byte
	if t.config != "" {
		var err error
		if config, err = readConfig(cmd.InOrStdin(), t.config); err != nil {
			return err
		}
	}
	comparison, err := t.compile(config)
	if err != nil {
		return invalidError{err}
	}
	sources, err := findSources(paths)
	if err != nil {
		return err
	}
	replayed, progress := 0, newProgress(cmd.ErrOrStderr(), "recordings replayed", len(sources))
	for n, s := range sources {
		if !s.isLines { // the decision log has nothing to replay
			if err := t.add(comparison, &s); err != nil {
				return explainMalformed(err)
			}
			replayed++
		}
		progress.done(n + 1)
	}
	if replayed == 0 {
		return fmt.Errorf("compare thresholds: no recording is among the %d files: plimsoll recording export makes one", len(sources))
	}
	text, err := render(comparison.Result())
	if err == nil && t.file == "" {
		_, err = cmd.OutOrStdout().Write(text)
	} else if err == nil {
		err = os.WriteFile(t.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}

// forms render the comparison.
func (t *tuning) forms() map[string]func(*tune.Result) ([]byte, error) {
	return map[string]func(*tune.Result) ([]byte, error){
		"text": func(r *tune.Result) ([]byte, error) { return []byte(r.Text(t.all)), nil },
		"csv":  func(r *tune.Result) ([]byte, error) { return []byte(r.CSV()), nil },
		"yaml": func(r *tune.Result) ([]byte, error) { return strictyaml.Marshal(r) },
		"json": func(r *tune.Result) ([]byte, error) {
			var b strings.Builder
			encoder := json.NewEncoder(&b)
			encoder.SetIndent("", "  ")
			err := encoder.Encode(r)
			return []byte(b.String()), err
		},
	}
}

// add replays a source. The segments of an agent are one recording.
func (t *tuning) add(comparison *tune.Tuning, s *source) error {
	var data []byte
	var parts []part
	err := s.each(func(file string, segment []byte) error {
		if len(data)+len(segment) > recordingcmd.MaxBytes {
			return recordingcmd.ErrTooLarge(s.name)
		}
		parts = append(parts, part{file, int64(len(data))})
		data = append(data, segment...)
		return nil
	})
	if err == nil {
		err = comparison.Add(s.name, data)
	}
	malformed, is := errors.AsType[*recording.MalformedError](err)
	if !is || errors.Is(err, recording.ErrNoRecording) {
		return err
	}
	if t.allowDamage {
		return nil
	}
	for _, p := range parts { // the last one that begins before names the file
		if p.offset <= malformed.Offset {
			err = &recording.MalformedError{File: p.file, Offset: malformed.Offset - p.offset, Cause: malformed.Cause}
		}
	}
	return err
}

// part is a file of a recording, and the offset at which it begins.
type part struct {
	file   string
	offset int64
}
