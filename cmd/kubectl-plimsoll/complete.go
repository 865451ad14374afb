package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/natural"
	"plimsoll.dev/plimsoll/internal/output"
)

const (
	// completionTime bounds the wait of a shell.
	completionTime = 3 * time.Second
	// maxCompletions bounds the names that a shell shows.
	maxCompletions = 1000
)

// nodes completes names of nodes that have an agent. Their leases are smaller than Nodes.
func (c *client) nodes(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	connection, err := c.flags.Dial(userAgent(cmd))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), c.within(completionTime))
	defer cancel()
	r := collect.Request{Client: connection.Client, Namespace: c.agents}
	agents, err := r.Agents(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	maps.DeleteFunc(agents, func(name string, _ *clusterstatus.Agent) bool {
		return !strings.HasPrefix(name, begin) || slices.Contains(args, name)
	})
	names := slices.SortedFunc(maps.Keys(agents), natural.Compare)
	return names[:min(len(names), maxCompletions)], cobra.ShellCompDirectiveNoFileComp
}

// complete completes the values of a flag.
func complete(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // the flag does not exist
	}
}

// contexts completes names of contexts.
func (c *client) contexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := c.flags.Contexts() // without a kubeconfig there is none
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFormats completes the output formats of a command.
func completeFormats(cmd *cobra.Command, flags *output.Flags) {
	complete(cmd, "output", cobra.FixedCompletions(flags.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

// findings completes the last code of a list of findings, separated by commas: those that keep an agent disarmed.
func findings(_ *cobra.Command, _ []string, begin string) (codes []cobra.Completion, _ cobra.ShellCompDirective) {
	at := strings.LastIndexByte(begin, ',') + 1
	before := arming.Codes(begin[:at])
	for _, known := range doctor.NodeCodes() {
		if known.Severity == doctor.Error && strings.HasPrefix(known.Code, begin[at:]) && !slices.Contains(before, known.Code) {
			codes = append(codes, begin[:at]+known.Code)
		}
	}
	return codes, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
