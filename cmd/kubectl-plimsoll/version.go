package main

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/buildinfo"
	"plimsoll.dev/plimsoll/internal/clusterstatus"
	"plimsoll.dev/plimsoll/internal/clusterstatus/collect"
	"plimsoll.dev/plimsoll/internal/output"
)

// version and commit are set by the linker (see the Makefile). An empty commit is that of the
// build information.
var version, commit = "devel", ""

func (c *client) versionCommand() *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:     "version",
		GroupID: groupOther,
		Short:   "Show the versions of this client and of the agents",
		Long: `Shows the version of this client, and each version of agents with the number of its
nodes. The agents' leases are listed once.

Exit status: 0 shown; 1 the agents could not be listed; 2 invalid flags.`,
		Example: `  # Client and agents
  kubectl plimsoll version

  # The client alone, without a request
  kubectl plimsoll version --client`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := output.AddTableFlags(cmd, false)
	completeFormats(cmd, flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		printer, err := flags.Printer()
		if err != nil {
			return invalid(err)
		}
		client := clusterstatus.Build{Version: version, Revision: buildinfo.Revision(commit), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if clientOnly {
			return c.show(printer, clusterstatus.NewVersions(client, nil, time.Time{}))
		}
		connection, err := c.flags.Dial(userAgent(cmd))
		if err != nil {
			return errors.Join(c.show(printer, clusterstatus.NewVersions(client, nil, time.Time{})), err)
		}
		r := collect.Request{Client: connection.Client, Namespace: c.agents}
		agents, err := r.Agents(cmd.Context())
		return errors.Join(c.show(printer, clusterstatus.NewVersions(client, slices.Collect(maps.Values(agents)), connection.Now())), err)
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "show the version of this client only; needs no API server")
	return cmd
}

// noArguments returns an invalidError if there are arguments beside flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalid(fmt.Errorf("%s takes no arguments beside flags: %q was given", cmd.CommandPath(), args[0]))
	}
	return nil
}
