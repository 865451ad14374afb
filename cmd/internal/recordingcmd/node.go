package recordingcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// nodePrefix marks an argument as the name of a node, as in kubectl.
const nodePrefix = "node/"

// exportTimeout is the default of the maximum time of an export of a node.
const exportTimeout = 15 * time.Minute

const aboutNode = `

NODE exports the recording of a running agent, without access to its node: the API
server runs plimsoll recording export in the pod of the agent, and streams its output.
That needs the right to create and get pods/exec, and to list pods, in the namespace of
the agents. An argument that is the name of a file means the file; node/NAME always
means the node.

The file of --file appears under its name once the export is complete.`

// addNode makes the command export nodes too.
func (x *export) addNode(cmd *cobra.Command) {
	cmd.Use = "export NODE|FILE"
	cmd.Long += aboutNode
	cmd.Example = "  # The last hour of a node\n  " + x.program.Name + " recording export node-7 --begin=1h -f incident.recording\n\n" +
		"  # A part of a file\n  " + x.program.Name + " recording export --begin=1h --end=30m -f part.recording incident.recording"
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return x.program.Invalid(fmt.Errorf("%s takes one node, one file, or - for standard input; %d were given", cmd.CommandPath(), len(args)))
		}
		return nil
	}
	f := cmd.Flags()
	f.DurationVar(&x.timeout, "timeout", exportTimeout, "maximum time of the export of a node")
	f.StringVar(&x.dir, "recording-dir", "", "`directory` of the agent on its node; empty: that of the chart")
}

// nodeOf returns the name of the node that an argument stands for, and false if it stands for a file.
func nodeOf(arg string) (node string, is bool) {
	if node, is = strings.CutPrefix(arg, nodePrefix); is {
		return node, true
	}
	if _, err := os.Stat(arg); arg == "-" || err == nil || strings.ContainsAny(arg, `/\`) {
		return "", false
	}
	return arg, true
}

// runNode exports the recording of the agent of a node. begin and end are as given, and valid.
func (x *export) runNode(cmd *cobra.Command, arg, node, begin, end, file string) error {
	if x.timeout <= 0 {
		return x.program.Invalid(fmt.Errorf("--timeout: %s: must be positive", x.timeout))
	}
	args := []string{"recording", "export"}
	for _, flag := range [][2]string{{"--begin=", begin}, {"--end=", end}, {"--recording-dir=", x.dir}} {
		if flag[1] != "" {
			args = append(args, flag[0]+flag[1])
		}
	}
	late := fmt.Errorf("export the recording of node %s: not complete after %s: give a later --begin, or a longer --timeout", node, x.timeout)
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), x.timeout, late)
	defer cancel()
	err := x.writeTo(cmd, file, func(out io.Writer) error { return x.program.ExportNode(ctx, cmd, node, args, out) })
	if errors.As(err, new(NoAgentError)) && arg == node {
		err = fmt.Errorf("%w. There is no file %s either", err, arg)
	}
	return err
}

// NoAgentError is the error for a node without an agent.
type NoAgentError struct{ Err error }

func (e NoAgentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e NoAgentError) Unwrap() error { return e.Err }
