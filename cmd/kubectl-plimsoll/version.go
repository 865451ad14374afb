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
	"plimsoll.dev/plimsoll/internal/kube/user"
	"plimsoll.dev/plimsoll/internal/output"
)

// version and commit are set by the linker (see the Makefile). An empty commit is that of the
// build information.
var version, commit = "devel", ""

func versionCommand(flags *user.Flags) *cobra.Command {
	var clientOnly bool
	var format output.Format
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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client := clusterstatus.Build{Version: version, Revision: buildinfo.Revision(commit), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		if clientOnly {
			return show(cmd, format, clusterstatus.NewVersions(client, nil, time.Time{}))
		}
		connection, err := flags.Dial(userAgent(cmd))
		if err != nil {
			return errors.Join(show(cmd, format, clusterstatus.NewVersions(client, nil, time.Time{})), err)
		}
		r := collect.Request{Client: connection.Client, Namespace: connection.Namespace}
		agents, err := r.Agents(cmd.Context())
		return errors.Join(show(cmd, format, clusterstatus.NewVersions(client, slices.Collect(maps.Values(agents)), connection.Now())), err)
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "show the version of this client only; needs no API server")
	addOutput(cmd, &format, []output.Format{output.Wide, output.JSON, output.YAML})
	return cmd
}

// noArguments returns an invalidError if there are arguments beside flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return invalidError{fmt.Errorf("%s takes no arguments beside flags: %q was given", cmd.CommandPath(), args[0])}
	}
	return nil
}
