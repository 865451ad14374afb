package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
)

// recordings returns the commands that work on recordings: on files with neither a node nor a cluster, and the export of
// a node.
func (c *client) recordings() *recordingcmd.Program {
	return &recordingcmd.Program{Name: "kubectl plimsoll", Invalid: invalid, Read: readRecording, ExportNode: c.exportNode}
}

// readRecording reads a file, or standard input for -.
func readRecording(in io.Reader, name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("read the recording %s: it is a directory: give a file of plimsoll recording export", name)
	}
	return recordingcmd.ReadFile(in, name)
}

func (c *client) recordingCommand() *cobra.Command {
	recordings := c.recordings()
	cmd := &cobra.Command{
		Use:     "recording",
		GroupID: groupFiles,
		Short:   "Export the recording of a node, describe and shorten one, and list its decisions",
		Long: `Agents record their checks, the usage of pods, and their decisions on their nodes. export
copies the recording of a node to this machine. The other commands read such a file, and
need no cluster.`,
		Example: `  # The last hour of a node
  kubectl plimsoll recording export node-7 --begin=1h -f incident.recording

  # What it covers
  kubectl plimsoll recording info incident.recording`,
		RunE: recordings.NeedsCommand("info, export or decisions"),
	}
	export := recordings.Export()
	export.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		nodes, _ := c.nodes(cmd, nil, begin)
		return nodes, cobra.ShellCompDirectiveDefault
	}
	cmd.AddCommand(recordings.Info(), export, recordings.Decisions())
	return cmd
}

func (c *client) reportCommand() *cobra.Command {
	recordings := c.recordings()
	cmd := &cobra.Command{
		Use:     "report",
		GroupID: groupFiles,
		Short:   "Make a report from a recording of an agent",
		Long: `Makes a report of one file from a file of kubectl plimsoll recording export. It needs no
cluster.`,
		Example: `  # Of the whole recording
  kubectl plimsoll report incident --recording=incident.recording -f incident.html`,
		RunE: recordings.NeedsCommand("incident"),
	}
	cmd.AddCommand(recordings.Incident())
	return cmd
}
