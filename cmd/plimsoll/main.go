// Command plimsoll keeps a Kubernetes node alive under pressure, looks after the
// nodes of a cluster, and simulates both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/help"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Exit statuses beyond 0. A command that ends otherwise fails with 1.
const (
	exitFailed   = 1
	exitInvalid  = 2 // the input is not valid; every fault is on standard error
	exitFindings = 3 // doctor found errors
)

// An invalidError is an error of flags, arguments or configuration.
type invalidError struct{ error }

func (e invalidError) Unwrap() error { return e.error }

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errs, signals.PrintableLines(err.Error()))
	// cobra has no type for a command that does not exist.
	if errors.As(err, new(invalidError)) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitInvalid
	}
	if errors.Is(err, doctor.ErrFindings) {
		return exitFindings
	}
	return exitFailed
}

// rootCommand returns plimsoll with all of its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "plimsoll",
		Short:         "Keeps Kubernetes nodes above the line: evicts the right pod before the kernel kills the wrong one",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return invalidError{err} })
	root.SetUsageFunc(help.Usage)
	root.SetHelpCommand(help.Command(func(err error) error { return invalidError{err} }))
	root.AddCommand(agentCommand(), controllerCommand(), simulateCommand(), doctorCommand(), armingCommand(arming.Arm), armingCommand(arming.Disarm), armingCommand(arming.Cleanup),
		recordingCommand(), topCommand(), reportCommand(), tuneCommand(), whyCommand(), configCommand(), importCommand(), healthCommand(), versionCommand())
	return root
}

// noArguments returns an invalidError if there are arguments beside flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalidError{fmt.Errorf("plimsoll %s takes no arguments beside flags: %q was given", cmd.Name(), args[0])}
	}
	return nil
}

// runUntilSignalled returns the body of a command that runs with its configuration until
// SIGTERM or SIGINT.
func runUntilSignalled[C any](load func() (C, error), run func(context.Context, C, io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := load()
		if errors.As(err, new(strictyaml.Faults)) {
			return invalidError{err}
		}
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return run(ctx, c, cmd.ErrOrStderr())
	}
}
