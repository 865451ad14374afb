// Command kubectl-plimsoll is a plugin of kubectl: kubectl plimsoll shows and examines Plimsoll's agents in a cluster,
// arms, disarms and cleans them up. It needs neither Linux nor access to a node.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"plimsoll.dev/plimsoll/cmd/internal/help"
	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/agentexec"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/document"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/internal/output"
)

// Exit statuses beyond 0.
const (
	exitFailed   = 1
	exitInvalid  = 2 // flags or arguments are not valid
	exitFindings = 3 // doctor found errors
)

// An invalidError is an error of flags or arguments.
type invalidError struct{ error }

func (e invalidError) Unwrap() error { return e.error }

func invalid(err error) error { return invalidError{err} }

func main() {
	// client-go logs what it returns as an error too, and warnings of the API server, which can have any
	// text.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(run(os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

func run(args []string, streams genericiooptions.IOStreams) int {
	return runRoot(rootCommand(streams, recordingcmd.IsTerminal(streams.In)), args, streams)
}

func runRoot(root *cobra.Command, args []string, streams genericiooptions.IOStreams) int {
	root.SetArgs(args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // then an interrupt has its default action: an output may be blocked
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(streams.ErrOut, signals.PrintableLines(err.Error()))
	// cobra has no type for a command that does not exist.
	if errors.As(err, new(invalidError)) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitInvalid
	}
	if errors.Is(err, doctor.ErrFindings) {
		return exitFindings
	}
	return exitFailed
}

// Groups of commands in the help.
const (
	groupSee    = "see"
	groupChange = "change"
	groupFiles  = "files"
	groupOther  = "other"
)

// client is what the commands share.
type client struct {
	streams genericiooptions.IOStreams
	flags   *user.Flags
	agents  string // namespace of the agents
	// interactive is whether the input is a terminal.
	interactive bool
	// executor runs commands in pods; nil: the connection does.
	executor agentexec.Executor
	// patience replaces the bounds of steps that commands can do without; 0: each has its own.
	patience time.Duration
}

// within returns the bound of a step that a command can do without: own, unless the client has another one.
func (c *client) within(own time.Duration) time.Duration { return cmp.Or(c.patience, own) }

// rootCommand returns kubectl plimsoll with all of its commands. interactive is whether its input is a terminal.
func rootCommand(streams genericiooptions.IOStreams, interactive bool) *cobra.Command {
	return newRoot(&client{streams: streams, interactive: interactive})
}

// newRoot returns the root of a client, and sets the client's flags.
func newRoot(c *client) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-plimsoll",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl plimsoll"},
		Short:         "See, examine and arm Plimsoll's agents in a cluster, and explain their evictions",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.streams.In)
	root.SetOut(c.streams.Out)
	root.SetErr(c.streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return invalid(err) })
	root.SetUsageFunc(help.Usage)
	root.SetHelpCommand(help.Command(invalid))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddGroup(&cobra.Group{ID: groupSee, Title: "See the cluster:"}, &cobra.Group{ID: groupChange, Title: "Change agents:"},
		&cobra.Group{ID: groupFiles, Title: "Work with recordings:"}, &cobra.Group{ID: groupOther, Title: "Other commands:"})
	c.flags = user.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&c.agents, "heartbeat-namespace", heartbeat.Namespace, "`namespace` of the agents and their leases")
	complete(root, "context", c.contexts)
	root.AddCommand(c.statusCommand(), c.topCommand(), c.whyCommand(), c.doctorCommand(), c.armingCommand(arming.Arm), c.armingCommand(arming.Disarm), c.armingCommand(arming.Cleanup),
		c.recordingCommand(), c.reportCommand(), c.versionCommand())
	return root
}

// userAgent returns the name of a command in the logs of the API server.
func userAgent(cmd *cobra.Command) string { return "kubectl-plimsoll-" + cmd.Name() + "/" + version }

// show prints a document.
func (c *client) show(p *output.Printer, d document.Document) error {
	if err := p.Print(c.streams.Out, d); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return nil
}
