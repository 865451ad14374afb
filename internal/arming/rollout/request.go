// Package rollout writes an arming setting for the agents of a cluster, and waits until
// their leases show that they follow it.
//
// It does the work of plimsoll arm, disarm and cleanup. The setting is written once, to the
// ConfigMap for all nodes or to the named Nodes. The leases are read by one list and one
// watch. The setting holds, whether agents follow in time or not.
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

// errNotAll is the error of a request that not every node follows.
var errNotAll = errors.New("not every node has followed: see above. The setting remains: a node that can follow later does so")

// doneText describes a node that follows a setting.
var doneText = map[arming.Setting]string{arming.Arm: "armed", arming.Disarm: "disarmed", arming.Cleanup: "cleaned-up"}

// Request is a setting for agents.
type Request struct {
	Setting    arming.Setting
	Nodes      []string
	All        bool    // all nodes, instead of Nodes
	AllowNone  bool    // with All: a cluster without agents is no error
	Accepted   *string // codes of accepted findings; nil: unchanged
	Namespace  string  // of the agents' leases and the ConfigMap
	Kubeconfig string
	Version    string // of this program
	Timeout    time.Duration
	Out        io.Writer
}

// Run writes the setting and waits until all agents follow it, or the timeout ends. It writes the
// outcome of each node to Out. Returns an error if not every agent follows, or none is found.
func (r *Request) Run(ctx context.Context) error {
	clients, err := client.DialAsUser(r.Kubeconfig, "plimsoll-"+doneText[r.Setting]+"/"+r.Version)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if err = r.write(ctx, clients); err == nil {
		err = r.wait(ctx, clients)
	}
	if none, is := errors.AsType[noAgentsError](err); is {
		return r.noAgents(clients, none)
	}
	return err
}

// CheckAccepted returns an error if an accepted code is no finding of the doctor.
func (r *Request) CheckAccepted() error {
	if r.Accepted == nil {
		return nil
	}
	var known, faults []string
	for _, code := range doctor.NodeCodes() {
		known = append(known, code.Code)
	}
	for _, code := range arming.Codes(*r.Accepted) {
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

// Locally creates the disarm file for [arming.Disarm], removes it for [arming.Arm], and writes the
// result to out. Returns an error if the file cannot be changed.
func Locally(setting arming.Setting, path string, out io.Writer) error {
	file := disarmfile.File(path)
	change := file.Remove
	if setting == arming.Disarm {
		change = func() error { return file.Create("by plimsoll disarm") }
	}
	if err := change(); err != nil {
		return fmt.Errorf("%w: run it as root on the node, or in the agent's pod", err)
	}
	results := map[arming.File]string{
		arming.Present: "%s exists: an agent with this --disarm-file changes nothing\n",
		arming.Absent:  "%s does not exist: an agent with this --disarm-file follows the settings of the cluster and its flags\n",
	}
	_, err := fmt.Fprintf(out, results[file.State()], path)
	return err
}
