package main

import (
	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/cmd/internal/armcmd"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// locally describes --local, for the commands that have it.
var locally = map[arming.Setting]string{
	arming.Arm: ` With --local the disarm
file of this node is removed, so that the cluster's settings and the flags apply.`,
	arming.Disarm: ` With --local it needs no API server:
it creates the disarm file of this node, which overrides any setting but "cleanup".`,
}

func armingCommand(setting arming.Setting) *cobra.Command {
	more, local := locally[setting]
	others := ""
	if local {
		others = "--local"
	}
	c := armcmd.New(setting, map[bool]string{true: "|--local"}[local], more)
	var here bool
	var kubeconfig, file string
	c.Cobra.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.Check(args, others, here); err != nil {
			return invalidError{err}
		}
		if here {
			return disarmfile.File(file).Apply(setting, cmd.OutOrStdout())
		}
		clients, err := client.DialAsUser(kubeconfig, "plimsoll-"+cmd.Name()+"/"+version)
		if err != nil {
			return err
		}
		r := &c.Request
		r.Client, r.Cluster, r.Out = clients.Writing, clients.Name(), cmd.OutOrStdout()
		return r.Run(cmd.Context())
	}
	f := c.Cobra.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: the files of KUBECONFIG, ~/.kube/config, or the service account of the pod")
	f.StringVar(&c.Request.Namespace, "heartbeat-namespace", heartbeat.Namespace, "namespace of the agents' leases and of the ConfigMap "+arming.ConfigMap)
	if local {
		f.BoolVar(&here, "local", false, "apply to this node by its disarm file; needs no API server")
		f.StringVar(&file, "disarm-file", config.NewAgent().DisarmFile, "the agent's --disarm-file, with --local")
	}
	if setting == arming.Cleanup {
		f.BoolVar(&c.Request.AllowNone, "allow-none", false, "with --all: exit with status 0 if no agent has a lease")
	}
	return c.Cobra
}
