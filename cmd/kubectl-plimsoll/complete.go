package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/internal/output"
)

const (
	// completionTime bounds the wait of a shell.
	completionTime = 3 * time.Second
	// maxCompletions bounds the names that a shell shows.
	maxCompletions = 1000
)

// completeNodes completes names of nodes that have an agent. Their leases are smaller than Nodes.
func completeNodes(flags *user.Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		connection, err := flags.Dial(userAgent(cmd))
		if err != nil {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		r := collect.Request{Client: connection.Client, Namespace: connection.Namespace}
		agents, err := r.Agents(ctx)
		if err != nil {
			return nil, directive
		}
		var names []string
		for name := range agents {
			if strings.HasPrefix(name, begin) && !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, output.Natural)
		return names[:min(len(names), maxCompletions)], directive
	}
}

// complete completes the values of a flag.
func complete(cmd *cobra.Command, flag string, values func() ([]string, error)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, err := values()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag does not exist
	}
}

// formatValue is the flag --output.
type formatValue struct {
	to   *output.Format
	suit []output.Format
}

func (v formatValue) String() string {
	if v.to == nil { // pflag asks the zero value
		return ""
	}
	return string(*v.to)
}

func (v formatValue) Set(name string) (err error) {
	*v.to, err = output.Parse(name, v.suit)
	return err
}

func (formatValue) Type() string { return "format" }

// addOutput adds the flag --output, with the formats that suit the command.
func addOutput(cmd *cobra.Command, to *output.Format, suit []output.Format) {
	cmd.Flags().VarP(formatValue{to, suit}, "output", "o", "output `format`: "+output.Join(suit)+"; empty: a table")
	complete(cmd, "output", func() ([]string, error) { return strings.Split(output.Join(suit), ", "), nil })
}
