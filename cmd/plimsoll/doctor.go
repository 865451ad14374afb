package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/agent/examine"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// doctorOptions are the flags of plimsoll doctor.
type doctorOptions struct {
	file    string
	cluster bool
	output  string
}

func doctorCommand() *cobra.Command {
	var x doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Search for faults that keep Plimsoll from protecting this node, or with --cluster a cluster",
		Long: `Looks at the kernel, the kubelet's configuration, the container runtime, other
programs that evict, the API server and the agent's rights there, for an agent
with the same --config and flags. With --cluster it looks at a cluster from
outside: agents, lifecycle controllers, admission policies. It changes nothing
and takes no longer than 10 s. docs/reference/findings.md has a table of all findings.

Exit status: 0 nothing worse than warnings, 1 not everything could be looked at,
2 invalid flags or configuration, 3 errors were found.`,
		Args: noArguments,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&x.file, "config", "", "the agent's configuration file; flags override it")
	cmd.Flags().BoolVar(&x.cluster, "cluster", false, "examine the cluster of --kubeconfig, KUBECONFIG or the service account of the pod")
	cmd.Flags().StringVarP(&x.output, "output", "o", "text", "output format: text or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if x.output != "text" && x.output != "json" {
			return invalidError{fmt.Errorf("--output: %q: must be text or json", x.output)}
		}
		c, err := config.Load(x.file, flags)
		if errors.As(err, new(strictyaml.Faults)) {
			return invalidError{err}
		}
		if err != nil {
			return err
		}
		return x.run(cmd.Context(), c, cmd.OutOrStdout())
	}
	return cmd
}

func (x *doctorOptions) run(ctx context.Context, c *config.Agent, out io.Writer) error {
	run := examine.Node
	if x.cluster {
		run = examine.Cluster
	}
	found, err := run(ctx, c, version)
	if err != nil {
		return err
	}
	write := examine.WriteText
	if x.output == "json" {
		write = examine.WriteJSON
	}
	if err := write(out, found); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return doctor.Verdict(found)
}
