package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// errNotAll ends a command that not every node has followed.
var errNotAll = errors.New("not every node has followed: see above. The word holds: a node that can follow later will")

// A command of arming is a line of this table.
type armingCommand struct {
	word        arming.Word
	done        string // what a node is that has followed
	local       func(disarmfile.File) error
	short, long string
	patience    time.Duration
}

var armingCommands = map[string]armingCommand{
	"arm": {arming.Arm, "armed", disarmfile.File.Remove, "Let agents act: on nodes that are named, on all, or on this one",
		`Says "armed" to agents, and waits until their leases say that they are. An agent
whose doctor has found an error refuses, unless the finding is accepted; it arms
itself as soon as the finding is gone. With --local the disarm file of this node
is removed, and whatever the cluster and the flags say holds again.`, 30 * time.Second},
	"disarm": {arming.Disarm, "disarmed", func(f disarmfile.File) error { return f.Create("by plimsoll disarm") }, "Keep agents from acting: they go on to tell what they would do",
		`Says "disarmed" to agents, and waits until their leases say that they are, which
takes less than a second. With --local it needs no API server: the disarm file
of this node is made, which is stronger than any word but "leaving".`, 30 * time.Second},
	"leave": {arming.Leave, "left", nil, "Have agents take back all that they wrote, before they are removed",
		`Says "leaving" to agents: they are disarmed, take their conditions, taints and
requests back, and remove their files. Waits until their leases say that they
have left.`, time.Minute},
}

// An order is a command as it was given.
type order struct {
	armingCommand
	nodes      []string
	all, here  bool
	allowNone  bool
	accepted   *string // findings; nil: as they were
	namespace  string
	kubeconfig string
	file       string
	timeout    time.Duration
	out        io.Writer
}

func armingCommandOf(name string) *cobra.Command {
	o := order{armingCommand: armingCommands[name]}
	var accepted string
	cmd := &cobra.Command{
		Use:   name + " [NODE...|--all" + map[bool]string{true: "|--local"}[o.local != nil] + "]",
		Short: o.short,
		Long:  o.long + "\n\nExit status: 0 every node has followed, 1 not every one, no agent was found, or the\nword could not be said, 2 invalid flags.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.nodes, o.out = args, cmd.OutOrStdout()
			if cmd.Flags().Changed("accept-findings") {
				o.accepted = &accepted
			}
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "for all nodes")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server; empty: what KUBECONFIG names, ~/.kube/config, or the pod's service account")
	f.StringVar(&o.namespace, "namespace", nodestatus.HeartbeatNamespace, "where the agents' leases are, and the ConfigMap "+arming.ConfigMap)
	f.DurationVar(&o.timeout, "timeout", o.patience, "how long to wait for the agents")
	if o.local != nil {
		f.BoolVar(&o.here, "local", false, "for this node, by the disarm file alone")
		f.StringVar(&o.file, "disarm-file", config.NewAgent().DisarmFile, "the agent's --disarm-file; with --local")
	}
	if o.word == arming.Leave {
		f.BoolVar(&o.allowNone, "allow-none", false, "with --all: exit with status 0 if no agent has a lease")
	}
	if o.word == arming.Arm {
		f.StringVar(&accepted, "accept-findings", "", "codes of the doctor's findings, with commas, in spite of which to arm; instead of those accepted before")
	}
	return cmd
}

func (o *order) run(ctx context.Context) error {
	if err := o.valid(); err != nil {
		return invalidError{err}
	}
	if o.here {
		return o.locally()
	}
	clients, err := client.DialAsUser(o.kubeconfig, "plimsoll-"+o.done+"/"+version)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err = o.say(ctx, clients); err == nil {
		err = o.muster(ctx, clients)
	}
	if none, is := errors.AsType[noAgentsError](err); is {
		return o.missed(clients, none)
	}
	return err
}

// valid returns what is wrong with the flags and arguments.
func (o *order) valid() error {
	given := 0
	for _, is := range []bool{o.all, o.here, len(o.nodes) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		if o.local == nil {
			return errors.New("name the nodes, or give --all")
		}
		return errors.New("name the nodes, or give one of --all and --local")
	}
	if o.accepted == nil {
		return nil
	}
	var known, faults []string
	for _, code := range doctor.NodeCodes() {
		known = append(known, code.Code)
	}
	for _, code := range arming.Codes(*o.accepted) {
		if !slices.Contains(known, code) {
			faults = append(faults, fmt.Sprintf("--accept-findings: %s is no finding of the doctor", code))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(known)
	return fmt.Errorf("%s\nthe findings are %s; plimsoll doctor reports those of a node", strings.Join(faults, "\n"), strings.Join(known, ", "))
}

func (o *order) locally() error {
	file := disarmfile.File(o.file)
	if err := o.local(file); err != nil {
		return fmt.Errorf("%w: run it as root on the node, or in the agent's pod", err)
	}
	told := map[arming.File]string{
		arming.Present: "%s is there: an agent with this --disarm-file touches nothing\n",
		arming.Absent:  "%s is gone: an agent with this --disarm-file follows the cluster's word and its flags\n",
	}
	_, err := fmt.Fprintf(o.out, told[file.State()], o.file)
	return err
}
