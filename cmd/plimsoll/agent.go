package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/app"
	"plimsoll.dev/plimsoll/agent/config"
)

func agentCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Watch this node and evict a pod before the kernel's OOM killer kills one",
		Long: `Watches the node's memory, disks, inodes and PIDs. When an eviction threshold is
met, garbage is collected for a disk, and then the pod that hurts most is evicted.
The agent starts disarmed, and only reports what it would do, until plimsoll arm
or with --dry-run=false. Decisions are JSON lines on standard error. SIGTERM and
SIGINT end the agent; the pods stay as they are.`,
		Args: noArguments,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "configuration file (apiVersion plimsoll.dev/v1alpha1, kind AgentConfiguration), watched for changes; flags override it")
	var source *config.Source
	load := func() (*config.Agent, error) {
		source = config.NewSource(file, flags)
		return source.Load()
	}
	cmd.RunE = runUntilSignalled(load, func(ctx context.Context, c *config.Agent, out io.Writer) error {
		return app.Run(ctx, c, app.Options{Version: version, Revision: revision(), Out: out, Source: source})
	})
	return cmd
}
