package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/recordingcmd"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/live"
	"plimsoll.dev/plimsoll/internal/live/screen"
	"plimsoll.dev/plimsoll/internal/output"
)

// topPatience bounds a single state, from the search of the agent to its answer.
const topPatience = time.Minute

// top is the command of that name.
type top struct {
	*client
	printer *output.Printer
	watch   bool
	dir     string
}

func (c *client) topCommand() *cobra.Command {
	t := top{client: c}
	cmd := &cobra.Command{
		Use:     "top NODE",
		GroupID: groupSee,
		Short:   "Show the state of one node live: signals, the next eviction, and pods by memory",
		Long: `Shows the state of a node by the recording of its agent: each signal with its threshold
(the ⊖ mark), its margin, its change and the time until nothing is available; the next
check; the pod that would be evicted now, and why; pods by memory; the last decisions.

On a terminal it is a view that follows the node: q ends it, s changes the order of pods,
up and down scroll them, ? lists all keys. If the connection breaks, it connects again, and
shows the age of the last state. Other outputs get the state once, or whenever there is
news with --watch.

The API server runs plimsoll top in the pod of the agent, which needs about 8 MiB of the
memory of its container meanwhile. That needs the right to create and get pods/exec, and
to list pods, in the namespace of the agents. With the right to list leases there, it
shows whether the agent is armed. It changes nothing.

Exit status: 0 shown, or ended with q; 1 the state could not be read; 2 invalid flags.`,
		Example: `  # The live view of a node
  kubectl plimsoll top node-7

  # Its state once, as text
  kubectl plimsoll top node-7 | cat

  # The pod that would be evicted now
  kubectl plimsoll top node-7 -o jsonpath='{.next.pod}{"\n"}'

  # The available memory, whenever there is news
  kubectl plimsoll top node-7 --watch -o json | jq '.signals[0].available'`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.nodes(cmd, args, begin)
		},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return invalid(fmt.Errorf("kubectl plimsoll top takes the name of one node; %d were given", len(args)))
			}
			return nil
		},
	}
	flags := output.AddFlags(cmd)
	completeFormats(cmd, flags)
	cmd.Flags().BoolVarP(&t.watch, "watch", "w", false, "without a terminal, or with --output: print the state again whenever there is news")
	cmd.Flags().StringVar(&t.dir, "recording-dir", "", "`directory` of the agent on its node; empty: that of the chart")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if t.printer, err = flags.Printer(); err != nil {
			return invalid(err)
		}
		agent, connection, err := c.agent(cmd, args[0])
		if err != nil {
			return err
		}
		f := &follower{agent: agent, dir: t.dir, connection: connection, leaseTime: t.within(armingTime)}
		return t.run(cmd.Context(), f)
	}
	return cmd
}

// run shows the state of the node, in the way that suits the output.
func (t *top) run(ctx context.Context, f *follower) error {
	if t.printer.IsText() && t.onTerminal() {
		return showTerminal(ctx, f, t.streams)
	}
	if !t.watch {
		ctx, cancel := context.WithTimeoutCause(ctx, topPatience, fmt.Errorf("show the state of node %s: no state within %s. See kubectl plimsoll status %s", f.agent.Node, topPatience, f.agent.Node))
		defer cancel()
		state, err := f.once(ctx)
		if err != nil {
			return err
		}
		return t.print(state, false)
	}
	again := false
	return f.follow(ctx, func(s *live.State) error {
		err := t.print(s, again)
		again = true
		return err
	}, func(err error, wait time.Duration) {
		fmt.Fprintf(t.streams.ErrOut, "%s. The next attempt is in %s\n", signals.PrintableLines(err.Error()), wait.Round(time.Second))
	})
}

// onTerminal reports whether a view can be shown: input and output are a terminal that can move its cursor.
func (t *top) onTerminal() bool {
	return t.interactive && recordingcmd.IsTerminal(t.streams.Out) && os.Getenv("TERM") != "dumb"
}

// print prints a state in the format. again is whether another one is before it.
func (t *top) print(state *live.State, again bool) error {
	var err error
	if t.printer.IsText() {
		text := screen.Plain(state)
		if again {
			text = "\n" + text
		}
		_, err = fmt.Fprint(t.streams.Out, text)
	} else {
		err = t.printer.PrintObject(t.streams.Out, state)
	}
	if err != nil {
		return fmt.Errorf("write the state of the node: %w", err)
	}
	return nil
}
