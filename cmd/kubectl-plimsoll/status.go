package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/output"
)

func (c *client) statusCommand() *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:     "status [NODE...]",
		GroupID: groupSee,
		Short:   "Show the state of nodes and their agents, the most urgent first",
		Long: `Shows one line for each node: whether its agent is armed, the signal nearest to its
threshold, conditions of the node, the last eviction, findings of the doctor, and the
version of the agent. Nodes that need attention are first. Agents publish their state
every 10 s, with values of their last periodic check. A silent agent has published
nothing for 40 s. Signals of a silent or missing agent are unknown.

The command lists nodes and leases once each, and changes nothing. It needs the right to
list nodes, and leases in the namespace of the agents.

Exit status: 0 the state was read, whatever it is; 1 it could not be read, or a named node
does not exist; 2 invalid flags.`,
		Example: `  # All nodes, the most urgent first
  kubectl plimsoll status

  # The nodes of a pool, with every signal and threshold
  kubectl plimsoll status -l pool=batch -o wide

  # The names of the nodes with a disarmed agent
  kubectl plimsoll status -o json | jq -r '.items[] | select(.agent == "disarmed").name'`,
		ValidArgsFunction: c.nodes,
	}
	flags := output.AddTableFlags(cmd, true)
	completeFormats(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := collect.Request{Names: args, Selector: selector, Namespace: c.agents}
		printer, err := flags.Printer()
		if err := errors.Join(err, r.Validate()); err != nil {
			return invalid(err)
		}
		connection, err := c.flags.Dial(userAgent(cmd))
		if err != nil {
			return err
		}
		r.Client = connection.Client
		nodes, err := r.Nodes(cmd.Context())
		if err != nil && len(nodes) == 0 {
			return fmt.Errorf("%w (%s)", err, connection.Name())
		}
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n clusterstatus.Node) bool { return n.Agent != nil }) {
			fmt.Fprintf(c.streams.ErrOut, "No agent of these nodes has a lease in the namespace %s of %s. For agents in another namespace, give --heartbeat-namespace\n",
				c.agents, connection.Name())
		}
		return errors.Join(c.show(printer, clusterstatus.NewList(nodes, connection.Now())), err)
	}
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "`labels` that nodes must have, such as pool=batch,zone!=a; empty: all nodes")
	return cmd
}
