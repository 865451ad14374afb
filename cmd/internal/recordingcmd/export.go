package recordingcmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/recording"
)

const aboutExport = `Exports the part of a recording between two times. It is copied as it is, from the last
state of the decisions before --begin on, so that plimsoll simulate --recording repeats
it exactly.%s

A time is in the form of RFC 3339, such as 2026-03-01T12:00:00Z, or a duration
before now, such as 15m.

The names, namespaces, owners, requests and volumes of pods are exported. No
command line and no environment is recorded.`

const aboutScenario = ` -o scenario makes a NodeScenario of it instead, which plimsoll simulate runs
with any configuration; its first lines name what a scenario has not.`

// Export returns the command that exports a part of a recording.
func (p *Program) Export() *cobra.Command {
	from, x := source{p, p.RecordingDir}, export{program: p}
	var begin, end, file string
	output := "recording"
	more, example := "", "  # The last hour\n  "+p.Name+" recording export --begin=1h -f incident.recording"
	if p.WriteScenario != nil {
		more = aboutScenario
	}
	if from.dir == "" {
		example += " node.recording"
	} else {
		example += `

  # Of the node of a pod
  kubectl -n plimsoll-system exec POD -- /plimsoll recording export --begin=1h > incident.recording

  # As a scenario
  plimsoll recording export -o scenario --begin=15m --end=10m incident.recording > incident.yaml`
	}
	cmd := &cobra.Command{
		Use:     "export " + from.usage(),
		Short:   "Export a time of a recording",
		Long:    fmt.Sprintf(aboutExport, more),
		Example: example,
		Args:    from.check,
	}
	from.addFlag(cmd, "recording-dir")
	f := cmd.Flags()
	f.StringVar(&begin, "begin", "", "begin of the time to export. Empty: that of the recording")
	f.StringVar(&end, "end", "", "end of the time to export. Empty: that of the recording")
	f.StringVarP(&file, "file", "f", "", "file to write. Empty: standard output")
	if p.WriteScenario != nil {
		f.StringVarP(&output, "output", "o", output, "form of the export: recording, or scenario")
		f.BoolVar(&x.confirm, "confirm", false, "write the number of exported bytes to standard error at the end, so that a reader knows it has all of them")
	}
	if p.ExportNode != nil {
		x.addNode(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := x.compile(begin, end, output, time.Now()); err != nil {
			return p.Invalid(err)
		}
		if p.ExportNode != nil {
			if node, is := nodeOf(args[0]); is {
				return x.runNode(cmd, args[0], node, begin, end, file)
			}
		}
		if x.confirm && p.Room != nil {
			if err := p.Room(from.name(args)); err != nil {
				return err
			}
		}
		return x.run(from.parts(cmd, args), cmd, file)
	}
	return cmd
}

// export is a time of a recording to be exported.
type export struct {
	program    *Program
	begin, end time.Time
	scenario   bool
	confirm    bool
	timeout    time.Duration // of an export of a node
	dir        string        // of the agent of a node; empty: its default
}

func (x *export) compile(begin, end, output string, now time.Time) (err error) {
	if x.begin, x.end, err = parseTime(begin, end, now); err != nil {
		return err
	}
	switch output {
	case "recording":
	case "scenario":
		x.scenario = true
	default:
		return fmt.Errorf("--output: %q: must be recording or scenario", output)
	}
	if x.scenario && x.confirm {
		return errors.New("-o scenario with --confirm: a scenario takes too much memory beside an agent: export the recording, and make the scenario of that file")
	}
	return nil
}

// run writes the export of a recording to a file, or to standard output if its name is empty.
func (x *export) run(parts iter.Seq2[[]byte, error], cmd *cobra.Command, file string) error {
	return x.writeTo(cmd, file, func(out io.Writer) error {
		counted := &counter{out: out}
		if x.confirm { // for a client, which may be gone
			counted.out = PatientWriter{out, Patience}
		}
		err := x.write(parts, counted)
		if err == nil && x.confirm {
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "exported %d bytes\n", counted.n)
		}
		return err
	})
}

// writeTo calls write with a file that has its name once write has succeeded, or with standard output.
func (x *export) writeTo(cmd *cobra.Command, file string, write func(io.Writer) error) error {
	if file == "" {
		if !x.scenario && IsTerminal(cmd.OutOrStdout()) {
			return x.program.Invalid(errors.New("a recording is not for a terminal: give --file, or redirect standard output"))
		}
		return write(cmd.OutOrStdout())
	}
	return writeWhole(file, write)
}

// writeSize is the size of a write; a client has the [Patience] for each.
const writeSize = 32 << 10

// counter counts the bytes that are written.
type counter struct {
	out io.Writer
	n   int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	c.n += int64(n)
	return n, err
}

func (x *export) write(parts iter.Seq2[[]byte, error], out io.Writer) error {
	w := bufio.NewWriterSize(out, writeSize)
	var to io.Writer = w
	var whole bytes.Buffer
	if x.scenario {
		to = &whole
	}
	checks := 0
	var err error
	for data, fault := range parts {
		if fault != nil {
			return fault
		}
		n, fault := recording.Excerpt(data, x.begin, x.end, to)
		if checks += n; fault != nil {
			err = fault
			break
		}
	}
	if x.scenario && err == nil && checks > 0 {
		err = x.program.WriteScenario(whole.Bytes(), w)
	}
	switch {
	case err != nil:
		return fmt.Errorf("export a recording: %w", err)
	case checks == 0:
		return fmt.Errorf("export a recording: %w: %s recording info shows what is recorded", recording.ErrNoChecks, x.program.Name)
	}
	return w.Flush()
}
