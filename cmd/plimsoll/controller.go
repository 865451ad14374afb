package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/lifecycle/app"
	"plimsoll.dev/plimsoll/lifecycle/config"
)

func controllerCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Watch the nodes of a cluster, and evict the pods of lost nodes",
		Long: `Follows the heartbeats of all nodes, marks lost ones Unknown, taints them at a
bounded rate and evicts their pods by tolerations, as kube-controller-manager's
node-lifecycle and taint-eviction controllers do. With --mode=observe, the
default, it only reports its decisions. Decisions are JSON lines on standard
error. SIGTERM and SIGINT end the controller; another replica takes over.`,
		Args: noArguments,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "configuration file (apiVersion plimsoll.dev/v1alpha1, kind ControllerConfiguration), watched for changes; flags override it")
	var source *config.Source
	load := func() (*config.Controller, error) {
		source = config.NewSource(file, flags)
		return source.Load()
	}
	cmd.RunE = runUntilSignalled(load, func(ctx context.Context, c *config.Controller, out io.Writer) error {
		return app.Run(ctx, c, app.Options{Version: version, Revision: revision(), Out: out, Source: source})
	})
	return cmd
}
