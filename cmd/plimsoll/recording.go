package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/simulate"
)

// recordingDir is where the chart and the service let agents record.
const recordingDir = "/var/lib/plimsoll/recording"

// maxRecordingBytes bounds a recording that is read at once.
const maxRecordingBytes = 2 << 30

var errNoRecordingCommand = errors.New("plimsoll recording needs a command: list, info, export or decisions")

func recordingCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recording",
		Short: "List, describe and export what an agent has recorded on its node",
		Long: `An agent with --recording-dir records its checks, the usage of pods, and its
decisions. These commands read that directory on the node, or in the agent's pod,
while the agent records, and files of plimsoll recording export anywhere.
With --decision-log-dir, the agent stores its decisions for longer.`,
		RunE: func(*cobra.Command, []string) error { return invalidError{errNoRecordingCommand} },
	}
	cmd.AddCommand(recordingListCommand(), recordingInfoCommand(), recordingExportCommand(), recordingDecisionsCommand())
	return cmd
}

// recordingSource accepts at most one argument: a file, a directory, or - for standard input.
func recordingSource(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return invalidError{fmt.Errorf("plimsoll recording %s takes one file or directory, or - for standard input; %d were given", cmd.Name(), len(args))}
	}
	return nil
}

func sourceOf(args []string, dir string) string {
	if len(args) > 0 {
		return args[0]
	}
	return dir
}

func addRecordingDir(cmd *cobra.Command) *string {
	return cmd.Flags().String("recording-dir", recordingDir, "directory of the agent, if no file is given")
}

func recordingListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the segments of a recording",
		Long: `Lists the files of a recording on a node, the oldest first, with the time that
each covers. Times are UTC.`,
		Args: noArguments,
	}
	dir := addRecordingDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return listSegments(cmd.OutOrStdout(), *dir) }
	return cmd
}

func listSegments(out io.Writer, dir string) error {
	segments, err := ring.List(dir)
	if err != nil {
		return unlisted(err)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SEGMENT\tFROM\tTO\tCHECKS\tUSAGES\tDECISIONS\tSIZE")
	for _, s := range segments {
		data, err := s.Read()
		if errors.Is(err, fs.ErrNotExist) { // removed by the agent meanwhile
			continue
		}
		if err != nil {
			return err
		}
		var of recording.RunInfo
		if info := recording.Describe(data); len(info.Runs) > 0 {
			of = info.Runs[0]
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Number, moment(of.From), moment(of.To), of.Periodic+of.Early, of.Usages, of.Decisions, size(s.Size))
	}
	return table.Flush()
}

func unlisted(err error) error {
	return fmt.Errorf("%w: give the --recording-dir of the agent, and read it as its user", err)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// size formats a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1fMi", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1fKi", float64(bytes)/(1<<10))
	}
	return fmt.Sprint(bytes)
}

func recordingInfoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info [FILE]",
		Short: "Describe a recording: its node, its agents, and what it covers",
		Long: `Describes each run of an agent in a recording: version, node, kernel, the time
covered, the number of checks and decisions, pods that were evicted, processes
that the OOM killer killed, steps of the clock, and what is missing. Times are
UTC.`,
		Args: recordingSource,
	}
	dir := addRecordingDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := readRecording(cmd.InOrStdin(), sourceOf(args, *dir))
		if err != nil {
			return err
		}
		info := recording.Describe(data)
		if len(info.Runs) == 0 {
			return invalidError{fmt.Errorf("describe %s: %w", sourceOf(args, *dir), recording.ErrNoRecording)}
		}
		_, err = io.WriteString(cmd.OutOrStdout(), simulate.Printable(describe(&info)))
		return err
	}
	return cmd
}

// describe describes a recording as text.
func describe(info *recording.Info) string {
	var b strings.Builder
	for i := range info.Runs {
		r := &info.Runs[i]
		h := r.Header
		fmt.Fprintf(&b, "agent %s on node %s, Linux %s, cgroup v%d, boot %s\n", h.Version, orUnknown(h.Node), orUnknown(h.Kernel), h.CgroupVersion, orUnknown(h.BootID))
		fmt.Fprintf(&b, "  recorded   from %s to %s, %s, segments: %d\n", moment(r.From), moment(r.To), size(r.Bytes), r.Segments)
		fmt.Fprintf(&b, "  checks     %d periodic, %d early; %d considered pods or garbage, and %d found the same again\n", r.Periodic, r.Early, r.Considered, r.Brief)
		fmt.Fprintf(&b, "  decisions  %d; %d pods evicted by the agent, %d in dry run\n", r.Decisions, r.Evicted, r.DryRun)
		fmt.Fprintf(&b, "  pods       up to %d, measured %d times; %d ended as evicted, by any program\n", r.MaxPods, r.Usages, r.PodsEvicted)
		if r.OOMKills != recording.Unknown {
			fmt.Fprintf(&b, "  OOM killer %d processes killed on the machine\n", r.OOMKills)
		}
		if r.Lost > 0 {
			fmt.Fprintf(&b, "  missing    %d checks and decisions: the disk was full or too slow\n", r.Lost)
		}
		if r.Cut > 0 {
			fmt.Fprintf(&b, "  in part    %d checks: their pods have more containers and volumes than are recorded\n", r.Cut)
		}
		for _, s := range r.ClockSteps {
			fmt.Fprintf(&b, "  clock      set by %s at %s\n", s.By, moment(s.At))
		}
	}
	if info.More {
		b.WriteString("there are more runs: export a shorter time\n")
	}
	if info.Damage != (recording.Damage{}) {
		fmt.Fprintf(&b, "not readable: %s\n", &info.Damage)
	}
	return b.String()
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func recordingExportCommand() *cobra.Command {
	var begin, end, output, file string
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Export a time of a recording, as a recording or as a scenario",
		Long: `Exports the part of a recording between two times. -o recording, the default,
copies it as it is, from the last state of the decisions before --begin on, so
that plimsoll simulate --recording repeats it exactly. -o scenario makes a
NodeScenario of it, which plimsoll simulate runs with any configuration; its
first lines name what a scenario has not.

A time is in the form of RFC 3339, such as 2026-03-01T12:00:00Z, or a duration
before now, such as 15m.

The names, namespaces, owners, requests and volumes of pods are exported. No
command line and no environment is recorded.`,
		Example: `  plimsoll recording export --begin=1h -f incident.recording
  kubectl exec POD -- /plimsoll recording export --begin=1h > incident.recording
  plimsoll recording export -o scenario --begin=2026-03-01T12:00:00Z --end=2026-03-01T12:10:00Z incident.recording > incident.yaml`,
		Args: recordingSource,
	}
	dir := addRecordingDir(cmd)
	cmd.Flags().StringVar(&begin, "begin", "", "begin of the time to export. Empty: that of the recording")
	cmd.Flags().StringVar(&end, "end", "", "end of the time to export. Empty: that of the recording")
	cmd.Flags().StringVarP(&output, "output", "o", "recording", "form of the export: recording, or scenario")
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write. Empty: standard output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x, err := newExport(begin, end, output, time.Now())
		if err != nil {
			return invalidError{err}
		}
		data, err := readRecording(cmd.InOrStdin(), sourceOf(args, *dir))
		if err != nil {
			return err
		}
		return x.run(data, cmd.OutOrStdout(), file)
	}
	return cmd
}

// export is a time of a recording to be exported.
type export struct {
	begin, end time.Time
	scenario   bool
}

func newExport(begin, end, output string, now time.Time) (x export, err error) {
	if x.begin, x.end, err = parseTime(begin, end, now); err != nil {
		return x, err
	}
	switch output {
	case "recording":
	case "scenario":
		x.scenario = true
	default:
		return x, fmt.Errorf("--output: %q: must be recording or scenario", output)
	}
	return x, nil
}

// parseMoment returns a time given by itself or as a duration before now; zero for an empty text.
func parseMoment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%s: %q: must be a time such as 2026-03-01T12:00:00Z, or a duration before now, such as 15m", flag, text)
}

// run writes the export to a file, or to out if its name is empty.
func (x export) run(data []byte, out io.Writer, file string) (err error) {
	if file == "" && !x.scenario && isTerminal(out) {
		return invalidError{errors.New("a recording is not for a terminal: give --file, or redirect standard output")}
	}
	if file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("export a recording: %w", err)
		}
		defer func() {
			if closed := f.Close(); err == nil && closed != nil {
				err = fmt.Errorf("export a recording: %w", closed)
			}
			if err != nil {
				_ = os.Remove(file) // a part of an export looks like a whole one
			}
		}()
		return x.write(data, f)
	}
	return x.write(data, out)
}

func (x export) write(data []byte, out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<20)
	var checks int
	var err error
	if x.scenario {
		var part strings.Builder
		if checks, err = recording.Excerpt(data, x.begin, x.end, &part); err == nil && checks > 0 {
			err = simulate.ExportScenario([]byte(part.String()), w)
		}
	} else {
		checks, err = recording.Excerpt(data, x.begin, x.end, w)
	}
	switch {
	case err != nil:
		return fmt.Errorf("export a recording: %w", err)
	case checks == 0:
		return fmt.Errorf("export a recording: %w: plimsoll recording info shows what is recorded", simulate.ErrNoChecks)
	}
	return w.Flush()
}

func isTerminal(out io.Writer) bool {
	f, is := out.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// collectPercent is the growth of the heap until Go collects garbage. A recording is most of the heap, and
// the command shares the memory limit of the agent's container.
const collectPercent = 25

// readRecording reads a file, all segments of a directory, or standard input.
func readRecording(in io.Reader, name string) ([]byte, error) {
	debug.SetGCPercent(collectPercent)
	if name == "-" {
		return readBounded(in, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	if !info.IsDir() {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the recording: %w", err)
		}
		defer f.Close()
		return readBounded(f, name)
	}
	segments, err := ring.List(name)
	if err != nil {
		return nil, unlisted(err)
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("read the recording %s: the directory has no segment: give that of an agent that records", name)
	}
	total := int64(0)
	for _, s := range segments {
		total += s.Size
	}
	all := make([]byte, 0, min(total, maxRecordingBytes)) // growing it would take twice as much
	for _, s := range segments {
		data, err := s.Read()
		if errors.Is(err, fs.ErrNotExist) { // removed by the agent meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, data...); len(all) > maxRecordingBytes {
			return nil, fmt.Errorf("read the recording %s: it is larger than %d bytes", name, maxRecordingBytes)
		}
	}
	return all, nil
}

func readBounded(in io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxRecordingBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the recording: %w", err)
	case len(data) > maxRecordingBytes:
		return nil, fmt.Errorf("read the recording %s: it is larger than %d bytes", name, maxRecordingBytes)
	}
	return data, nil
}
