package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/cmd/internal/whycmd"
	"plimsoll.dev/plimsoll/internal/output"
	"plimsoll.dev/plimsoll/internal/why/lookup"
)

func (c *client) whyCommand() *cobra.Command {
	var flags *output.Flags
	cmd := whycmd.Command(whycmd.Program{
		Name:      "kubectl plimsoll",
		Version:   version,
		Namespace: c.flags.Namespace,
		Invalid:   invalid,
		Run: func(cmd *cobra.Command, r *lookup.Request) error {
			printer, err := flags.Printer()
			if err != nil {
				return invalid(err)
			}
			connection, err := c.flags.Dial(userAgent(cmd))
			if err != nil {
				return err
			}
			r.Client, r.Cluster, r.AgentNamespace, r.Now = connection.Client, connection.Name(), c.agents, connection.Now
			found, err := r.Find(cmd.Context())
			if found == nil {
				return err
			}
			write := func() error { return printer.PrintObject(c.streams.Out, found) }
			if printer.IsText() {
				write = func() error { return found.WriteText(c.streams.Out) }
			}
			if fault := write(); fault != nil {
				err = errors.Join(fmt.Errorf("write what was found: %w", fault), err)
			}
			return err
		},
	})
	cmd.GroupID = groupSee
	flags = output.AddFlags(cmd)
	completeFormats(cmd, flags)
	complete(cmd, "node", c.nodes)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return []cobra.Completion{"pod", "node"}, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && args[0] == "node":
			return c.nodes(cmd, nil, begin)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}
