// Package rollout carries a word of arming to the agents of a cluster, and waits until
// their leases say that they follow it.
//
// It does the work of plimsoll arm, disarm and leave. The word is written once, to the
// ConfigMap for all nodes or to the Nodes that are named; the leases are read by one list
// and one watch. What was written holds, whether agents follow in time or not.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// errNotAll ends a command that not every node has followed.
var errNotAll = errors.New("not every node has followed: see above. The word holds: a node that can follow later will")

// done is what a node is that has followed a word.
var done = map[arming.Word]string{arming.Arm: "armed", arming.Disarm: "disarmed", arming.Leave: "left"}

// A Request is a word for agents.
type Request struct {
	Word       arming.Word
	Nodes      []string
	All        bool    // nodes, instead of those
	AllowNone  bool    // with All: that no agent is there is no error
	Accepted   *string // findings; nil: as they were
	Namespace  string  // of the agents' leases and the ConfigMap
	Kubeconfig string
	Version    string // of this program
	Timeout    time.Duration
	Out        io.Writer
}

// Run writes the word and waits until all of the agents follow it, or the timeout ends.
// What became of each is written to Out. Returns an error if not every agent follows, or
// none is found.
func (o *Request) Run(ctx context.Context) error {
	clients, err := client.DialAsUser(o.Kubeconfig, "plimsoll-"+done[o.Word]+"/"+o.Version)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err = o.say(ctx, clients); err == nil {
		err = o.muster(ctx, clients)
	}
	if none, is := errors.AsType[noAgentsError](err); is {
		return o.missed(clients, none)
	}
	return err
}

// CheckAccepted returns an error if the request accepts what is no finding of the doctor.
func (o *Request) CheckAccepted() error {
	if o.Accepted == nil {
		return nil
	}
	var known, faults []string
	for _, code := range doctor.NodeCodes() {
		known = append(known, code.Code)
	}
	for _, code := range arming.Codes(*o.Accepted) {
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

// Locally makes the disarm file for [arming.Disarm], removes it for [arming.Arm], and
// writes to out what holds then. Returns an error if the file can not be changed.
func Locally(word arming.Word, path string, out io.Writer) error {
	file := disarmfile.File(path)
	change := file.Remove
	if word == arming.Disarm {
		change = func() error { return file.Create("by plimsoll disarm") }
	}
	if err := change(); err != nil {
		return fmt.Errorf("%w: run it as root on the node, or in the agent's pod", err)
	}
	told := map[arming.File]string{
		arming.Present: "%s is there: an agent with this --disarm-file touches nothing\n",
		arming.Absent:  "%s is gone: an agent with this --disarm-file follows the cluster's word and its flags\n",
	}
	_, err := fmt.Fprintf(out, told[file.State()], path)
	return err
}
