package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/why/lookup"
)

func whyCommand() *cobra.Command {
	r := lookup.Request{Version: version}
	cmd := &cobra.Command{
		Use:   "why pod NAMESPACE/NAME|node NODE|--last N",
		Short: "Explain evictions from their records in the cluster",
		Long: `Reads the records of evictions, which outlive events, pods and agents. For a pod it
prints the threshold and the observation, the ranking at that time, why this pod was
evicted and not the next one, what the kubelet would have done, and which request,
usage or priority would have saved it. For a node, and with --last, it prints one line
for each eviction.

The records of the pod's node are read first, if the pod still exists. If they have no
eviction of it, or the pod is gone, those of all nodes are read. If none has an eviction
of it and the pod exists, the exit status is 1, and it prints where the pod stands for
each signal, as far as the cluster knows it without the node's agent.

Exit status: 0 found, 1 no such eviction is recorded, or the records cannot be read;
2 invalid flags or arguments.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Out = cmd.OutOrStdout()
			if err := selectEvictions(&r, args); err != nil {
				return invalidError{err}
			}
			return r.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Node, "node", "", "node of the pod; empty: the present node of the pod, else all nodes are searched")
	f.BoolVar(&r.AllNodes, "all-nodes", false, "search all nodes, for evictions of earlier pods of the same name too")
	f.IntVar(&r.Last, "last", 0, "print the last N evictions only; 0: all of the pod or node")
	f.StringVarP(&r.Output, "output", "o", "text", "output format: text, json or yaml")
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: the files of KUBECONFIG, ~/.kube/config, or the service account of the pod")
	f.StringVar(&r.Namespace, "namespace", config.NewAgent().EvictionRecordNamespace, "namespace of the records")
	f.StringVar(&r.AgentNamespace, "heartbeat-namespace", config.NewAgent().HeartbeatNamespace, "namespace of the agents' leases, for a pod that was not evicted")
	f.DurationVar(&r.Timeout, "timeout", time.Minute, "maximum time to read the records")
	return cmd
}

// selectEvictions sets what the arguments select. Returns an error if they and the flags are invalid.
func selectEvictions(r *lookup.Request, args []string) error {
	switch r.Output {
	case "text", "json", "yaml":
	default:
		return fmt.Errorf("--output: %q: must be text, json or yaml", r.Output)
	}
	if r.Last < 0 {
		return fmt.Errorf("--last: %d: must be at least 0", r.Last)
	}
	if r.AllNodes && r.Node != "" {
		return fmt.Errorf("--all-nodes: must not be given with --node, which is %q", r.Node)
	}
	switch {
	case len(args) == 0 && r.Last > 0:
		return nil
	case len(args) == 2 && args[0] == "pod":
		if namespace, name, is := strings.Cut(args[1], "/"); !is || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("plimsoll why pod: %q: must be NAMESPACE/NAME", args[1])
		}
		r.Pod = args[1]
		return nil
	case len(args) == 2 && args[0] == "node" && r.Node == "":
		r.Node = args[1]
		return nil
	}
	return fmt.Errorf("plimsoll why needs one of pod NAMESPACE/NAME, node NODE and --last N; %q was given", strings.Join(args, " "))
}
