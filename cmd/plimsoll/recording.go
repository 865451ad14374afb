package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/internal/recording/ring"
	"plimsoll.dev/plimsoll/simulate"
)

// recordingDir and decisionLogDir are where the chart and the service let agents record and store decisions.
const (
	recordingDir   = "/var/lib/plimsoll/recording"
	decisionLogDir = "/var/lib/plimsoll/decisions"
)

// recordings has the commands that work on recordings.
var recordings = recordingcmd.Program{
	Name:         "plimsoll",
	Invalid:      func(err error) error { return invalidError{err} },
	Read:         readRecording,
	Parts:        recordingParts,
	Room:         func(dir string) error { return checkExportRoom(procDir, dir) },
	RecordingDir: recordingDir, DecisionDir: decisionLogDir,
	WriteScenario: simulate.ExportScenario,
}

func recordingCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recording",
		Short: "List, describe and export what an agent has recorded on its node",
		Long: `An agent with --recording-dir records its checks, the usage of pods, and its
decisions. These commands read that directory on the node, or in the agent's pod,
while the agent records, and files of plimsoll recording export anywhere.
With --decision-log-dir, the agent stores its decisions for longer.`,
		RunE: recordings.NeedsCommand("list, info, export or decisions"),
	}
	cmd.AddCommand(recordingListCommand(), recordings.Info(), recordings.Export(), recordings.Decisions())
	return cmd
}

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Make a report from recordings",
		Long:  `Makes a report of one file from what agents have recorded on their nodes.`,
		RunE:  recordings.NeedsCommand("incident or trial"),
	}
	cmd.AddCommand(recordings.Incident(), reportTrialCommand())
	return cmd
}

func recordingListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the segments of a recording",
		Long: `Lists the files of a recording on a node, the oldest first, with the time that
each covers. Times are UTC.`,
		Args: noArguments,
	}
	dir := cmd.Flags().String("recording-dir", recordingDir, "directory of the agent")
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
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Number, recordingcmd.Moment(of.From), recordingcmd.Moment(of.To), of.Periodic+of.Early, of.Usages, of.Decisions, recordingcmd.Size(s.Size))
	}
	return table.Flush()
}

func unlisted(err error) error {
	return fmt.Errorf("%w: give the --recording-dir of the agent, and read it as its user", err)
}

// collectPercent is the growth of the heap until Go collects garbage. A recording is most of the heap, and
// the command shares the memory limit of the agent's container.
const collectPercent = 25

// recordingParts returns the segments of a directory; nil if the name is none.
func recordingParts(name string) iter.Seq2[[]byte, error] {
	if !isDirectory(name) {
		return nil
	}
	return func(yield func([]byte, error) bool) {
		useLittle()
		segments, err := segmentsOf(name)
		if err != nil {
			yield(nil, err)
			return
		}
		contents(segments)(yield)
	}
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return name != "-" && err == nil && info.IsDir()
}

// segmentsOf returns the segments of a directory. Returns an error if there is none.
func segmentsOf(dir string) ([]ring.Segment, error) {
	segments, err := ring.List(dir)
	switch {
	case err != nil:
		return nil, unlisted(err)
	case len(segments) == 0:
		return nil, fmt.Errorf("read the recording %s: the directory has no segment: give that of an agent that records", dir)
	}
	return segments, nil
}

// contents returns the content of each segment that the agent has not removed meanwhile, and ends with the first error.
func contents(segments []ring.Segment) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, s := range segments {
			data, err := s.Read()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// readRecording reads a file, all segments of a directory, or standard input.
func readRecording(in io.Reader, name string) ([]byte, error) {
	debug.SetGCPercent(collectPercent)
	if !isDirectory(name) {
		return recordingcmd.ReadFile(in, name)
	}
	segments, err := segmentsOf(name)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, s := range segments {
		total += s.Size
	}
	if err := checkWholeRoom(procDir, total); err != nil {
		return nil, err
	}
	all := make([]byte, 0, min(total, recordingcmd.MaxBytes)) // growing it would take twice as much
	for data, err := range contents(segments) {
		if err != nil {
			return nil, err
		}
		if all = append(all, data...); len(all) > recordingcmd.MaxBytes {
			return nil, recordingcmd.ErrTooLarge(name)
		}
	}
	return all, nil
}
