package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/doctor/clusterprobe"
	"plimsoll.dev/plimsoll/internal/doctor/groups"
	"plimsoll.dev/plimsoll/internal/output"
)

// examinationTime bounds an examination: a list of thousands of Nodes, to a machine far away.
const examinationTime = time.Minute

func (c *client) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupSee,
		Short:   "Search for faults that keep Plimsoll from protecting the nodes of a cluster",
		Long: `Examines a cluster from outside of its nodes: agents and what they found on their nodes,
lifecycle controllers, admission policies, and health checks that repair nodes. Findings
are grouped by their code, the worst first, each with its nodes and its remedy. It
changes nothing and takes no longer than a minute. It does what plimsoll doctor --cluster
does; plimsoll doctor on a node has more about that node.

What your account may not read is a finding, with a code that begins with unknown-.

Exit status: 0 nothing worse than warnings; 1 not everything could be examined; 2 invalid
flags; 3 errors were found.`,
		Example: `  # All findings, with their nodes and remedies
  kubectl plimsoll doctor

  # Each code with the number of its nodes
  kubectl plimsoll doctor -o json | jq -r '.items[] | "\(.code) \(.nodes | length)"'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := output.AddFlags(cmd)
	completeFormats(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		printer, err := flags.Printer()
		if err != nil {
			return invalid(err)
		}
		connection, err := c.flags.Dial(userAgent(cmd))
		if err != nil {
			return err
		}
		found := groups.New(clusterprobe.Cluster(cmd.Context(), clusterprobe.Options{Client: connection.Client, Namespace: c.agents, Patience: examinationTime}))
		write := func() error { return printer.PrintObject(c.streams.Out, found) }
		if printer.IsText() {
			write = func() error {
				_, err := io.WriteString(c.streams.Out, found.Text())
				return err
			}
		}
		if err := write(); err != nil {
			return errors.Join(fmt.Errorf("write what was found: %w", err), found.Err())
		}
		return found.Err()
	}
	return cmd
}
