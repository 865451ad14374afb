package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/buildinfo"
)

// version and commit are set by the linker (see the Makefile). An empty commit is that of the
// build information.
var version, commit = "devel", ""

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "plimsoll %s (revision %s, %s, %s/%s)\n", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// revision returns the commit of the source.
func revision() string { return buildinfo.Revision(commit) }
