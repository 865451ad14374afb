// Command kubectl-plimsoll is a plugin of kubectl: kubectl plimsoll shows Plimsoll's agents in a
// cluster. It needs neither Linux nor access to a node.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"

	"plimsoll.dev/plimsoll/cmd/internal/help"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/internal/output"
)

// Exit statuses beyond 0.
const (
	exitFailed  = 1
	exitInvalid = 2 // flags or arguments are not valid
)

// An invalidError is an error of flags or arguments.
type invalidError struct{ error }

func (e invalidError) Unwrap() error { return e.error }

func main() {
	// client-go logs what it returns as an error too, and warnings of the API server, which can have any
	// text.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errs io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errs, output.Plain(err.Error()))
	// cobra has no type for a command that does not exist.
	if errors.As(err, new(invalidError)) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitInvalid
	}
	return exitFailed
}

// Groups of commands in the help.
const (
	groupSee   = "see"
	groupOther = "other"
)

// rootCommand returns kubectl plimsoll with all of its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-plimsoll",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl plimsoll"},
		Short:         "Show Plimsoll's agents in a cluster",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return invalidError{err} })
	root.SetUsageFunc(help.Usage)
	root.SetHelpCommand(help.Command(func(err error) error { return invalidError{err} }))
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.AddGroup(&cobra.Group{ID: groupSee, Title: "See the cluster:"}, &cobra.Group{ID: groupOther, Title: "Other commands:"})
	flags := user.AddFlags(root.PersistentFlags(), heartbeat.Namespace)
	complete(root, "context", func() ([]string, error) { return flags.Contexts() })
	root.AddCommand(statusCommand(flags), versionCommand(flags))
	return root
}

// userAgent returns the name of a command in the logs of the API server.
func userAgent(cmd *cobra.Command) string { return "kubectl-plimsoll-" + cmd.Name() + "/" + version }

// show writes a document to the output of a command.
func show(cmd *cobra.Command, f output.Format, d output.Document) error {
	out := cmd.OutOrStdout()
	if err := f.Write(out, d, colours(isTerminal(out), os.Getenv, runtime.GOOS)); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return nil
}

func isTerminal(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// colours reports whether tables have colours: on a terminal that shows them, unless NO_COLOR is set.
// An old console of Windows shows them as characters.
func colours(terminal bool, environment func(string) string, system string) bool {
	shows := environment("TERM") != "dumb" && (system != "windows" || environment("WT_SESSION") != "" || environment("TERM") != "")
	return terminal && shows && environment("NO_COLOR") == ""
}
