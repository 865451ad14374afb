package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/rollout"
	"plimsoll.dev/plimsoll/internal/heartbeat"
)

// An armingCommand is one of the commands that change the arming of agents.
type armingCommand struct {
	setting     arming.Setting
	local       bool // has --local, for the disarm file of this node
	short, long string
	timeout     time.Duration
}

var armingCommands = map[string]armingCommand{
	"arm": {arming.Arm, true, "Arm agents: of named nodes, of all nodes, or of this node",
		`Writes the setting "armed" and waits until the agents' leases report that they
follow it. An agent whose doctor has found an error refuses, unless the finding is
accepted; it arms itself as soon as the finding is gone. With --local the disarm
file of this node is removed, so that the cluster's settings and the flags apply.`, 30 * time.Second},
	"disarm": {arming.Disarm, true, "Disarm agents: they only report their decisions",
		`Writes the setting "disarmed" and waits until the agents' leases report that they
follow it, which takes less than a second. With --local it needs no API server:
it creates the disarm file of this node, which overrides any setting but "cleanup".`, 30 * time.Second},
	"cleanup": {arming.Cleanup, false, "Withdraw everything that agents wrote, before they are removed",
		`Writes the setting "cleanup": agents are disarmed, withdraw their conditions, taints
and requests, and remove their files. Waits until the agents' leases report that
they have finished.`, time.Minute},
}

func newArmingCommand(name string) *cobra.Command {
	c := armingCommands[name]
	r := rollout.Request{Setting: c.setting, Version: version}
	var here bool
	var accepted, file string
	cmd := &cobra.Command{
		Use:   name + " [NODE...|--all" + map[bool]string{true: "|--local"}[c.local] + "]",
		Short: c.short,
		Long:  c.long + "\n\nExit status: 0 every agent follows the setting; 1 an agent does not, there is no agent,\nor the setting could not be written; 2 invalid flags.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Nodes, r.Out = args, cmd.OutOrStdout()
			if cmd.Flags().Changed("accept-findings") {
				r.Accepted = &accepted
			}
			if err := checkPlaces(&r, here, c.local); err != nil {
				return invalidError{err}
			}
			if err := r.CheckAccepted(); err != nil {
				return invalidError{err}
			}
			if here {
				return rollout.Locally(r.Setting, file, r.Out)
			}
			return r.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.All, "all", false, "apply to all nodes")
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "path of the kubeconfig; empty: the files of KUBECONFIG, ~/.kube/config, or the service account of the pod")
	f.StringVar(&r.Namespace, "heartbeat-namespace", heartbeat.Namespace, "namespace of the agents' leases and of the ConfigMap "+arming.ConfigMap)
	f.DurationVar(&r.Timeout, "timeout", c.timeout, "maximum time to wait for the agents")
	if c.local {
		f.BoolVar(&here, "local", false, "apply to this node by its disarm file; needs no API server")
		f.StringVar(&file, "disarm-file", config.NewAgent().DisarmFile, "the agent's --disarm-file, with --local")
	}
	if c.setting == arming.Cleanup {
		f.BoolVar(&r.AllowNone, "allow-none", false, "with --all: exit with status 0 if no agent has a lease")
	}
	if c.setting == arming.Arm {
		f.StringVar(&accepted, "accept-findings", "", "codes of findings to accept, separated by commas; they replace those accepted before")
	}
	return cmd
}

// checkPlaces returns an error unless exactly one of named nodes, all nodes and this node
// was given.
func checkPlaces(r *rollout.Request, here, local bool) error {
	given := 0
	for _, is := range []bool{r.All, here, len(r.Nodes) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 1:
		return nil
	case local:
		return errors.New("name the nodes, or give one of --all and --local")
	}
	return errors.New("name the nodes, or give --all")
}
