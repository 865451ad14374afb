// Package armcmd is what the commands that change the arming of agents have in common, in both programs: texts, flags and
// their checks. The programs differ in their connection to the cluster, and in how a change is confirmed.
package armcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/rollout"
)

// text describes a command.
type text struct {
	name, short, long string
	timeout           time.Duration
}

var texts = map[arming.Setting]text{
	arming.Arm: {"arm", "Arm agents: they act on their decisions", `Writes the setting "armed" and waits until the agents' leases report that they
follow it. An agent whose doctor has found an error refuses, unless the finding is
accepted; it arms itself within 10 minutes after the finding is gone.`, 30 * time.Second},
	arming.Disarm: {"disarm", "Disarm agents: they only report their decisions", `Writes the setting "disarmed" and waits until the agents' leases report that they
follow it, which takes less than a second.`, 30 * time.Second},
	arming.Cleanup: {"cleanup", "Withdraw everything that agents wrote, before they are removed", `Writes the setting "cleanup": agents are disarmed, withdraw their conditions, taints
and requests, and remove their files. Waits until the agents' leases report that
they have finished.`, time.Minute},
}

const exits = `Exit status: 0 every agent follows the setting; 1 an agent does not, there is no agent,
or the setting could not be written; 2 invalid flags.`

// Command is a command that writes a setting. Its flags fill the request; the program has the connection.
type Command struct {
	Cobra   *cobra.Command
	Request rollout.Request

	accepted string
}

// New returns the command for a setting. others are the alternatives to names of nodes and --all in its usage, each
// with | before it; more is the program's part of the help.
func New(setting arming.Setting, others, more string) *Command {
	text := texts[setting]
	c := &Command{Request: rollout.Request{Setting: setting}}
	c.Cobra = &cobra.Command{
		Use:   text.name + " [NODE...|--all" + others + "]",
		Short: text.short,
		Long:  text.long + more + "\n\n" + exits,
	}
	f := c.Cobra.Flags()
	f.BoolVar(&c.Request.All, "all", false, "apply to all nodes")
	f.DurationVar(&c.Request.Timeout, "timeout", text.timeout, "maximum time to write the setting, and to wait for the agents")
	if setting == arming.Arm {
		f.StringVar(&c.accepted, "accept-findings", "", "`codes` of findings to accept, separated by commas; they replace those accepted before")
	}
	return c
}

// Check stores the names of nodes and the accepted findings in the request. given is whether one of others was given, the
// program's alternatives to names and --all. Returns an error unless exactly one place was given, and each finding exists.
func (c *Command) Check(nodes []string, others string, given bool) error {
	c.Request.Nodes = nodes
	if c.Cobra.Flags().Changed("accept-findings") {
		c.Request.Accepted = &c.accepted
	}
	places := 0
	for _, is := range []bool{c.Request.All, given, len(nodes) > 0} {
		if is {
			places++
		}
	}
	switch {
	case places == 1:
		return c.Request.CheckAccepted()
	case others == "":
		return errors.New("name the nodes, or give --all")
	}
	return fmt.Errorf("name the nodes, or give one of --all and %s", others)
}
