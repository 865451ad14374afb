package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
)

// recordings has the commands that work on files of recordings, with neither a node nor a cluster.
var recordings = recordingcmd.Program{Name: "kubectl plimsoll", Invalid: invalid, Read: readRecording}

// readRecording reads a file, or standard input for -.
func readRecording(in io.Reader, name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("read the recording %s: it is a directory: give a file of plimsoll recording export", name)
	}
	return recordingcmd.ReadFile(in, name)
}

func recordingCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "recording",
		GroupID: groupFiles,
		Short:   "Describe and shorten a recording of an agent, and list its decisions",
		Long: `Agents record their checks, the usage of pods, and their decisions on their nodes. These
commands read a file that plimsoll recording export has written there. They need no
cluster.`,
		Example: `  # Get a recording from the node of an agent's pod
  kubectl -n plimsoll-system exec POD -- /plimsoll recording export --begin=1h > incident.recording

  # What it covers
  kubectl plimsoll recording info incident.recording`,
		RunE: recordings.NeedsCommand("info, export or decisions"),
	}
	cmd.AddCommand(recordings.Info(), recordings.Export(), recordings.Decisions())
	return cmd
}

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "report",
		GroupID: groupFiles,
		Short:   "Make a report from a recording of an agent",
		Long: `Makes a report of one file from a file that plimsoll recording export has written. It needs
no cluster.`,
		Example: `  # Of the whole recording
  kubectl plimsoll report incident --recording=incident.recording -f incident.html`,
		RunE: recordings.NeedsCommand("incident"),
	}
	cmd.AddCommand(recordings.Incident())
	return cmd
}
