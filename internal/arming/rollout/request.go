// Package rollout writes an arming setting for the agents of a cluster, and waits until
// their leases show that they follow it.
//
// It does the work of arm, disarm and cleanup, in both programs. The setting is written once, to the
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
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kube/api"
)

// errNotAll is the error of a request that not every node follows.
var errNotAll = errors.New("not every node has followed: see above. The setting remains: a node that can follow later does so")

// doneText describes a node that follows a setting.
var doneText = map[arming.Setting]string{arming.Arm: "armed", arming.Disarm: "disarmed", arming.Cleanup: "cleaned-up"}

// Request is a setting for agents.
type Request struct {
	Client    api.Interface // without a timeout, which would end the watch
	Cluster   string        // its name in messages
	Setting   arming.Setting
	Nodes     []string
	All       bool    // all nodes, instead of Nodes
	AllowNone bool    // with All: a cluster without agents is no error
	Accepted  *string // codes of accepted findings; nil: unchanged
	Namespace string  // of the agents' leases and the ConfigMap
	Timeout   time.Duration
	// Now returns the time by the clock of the API server, which shows the age of leases. Nil is time.Now.
	Now func() time.Time
	Out io.Writer
	// Progress receives how many nodes follow, whenever that changes. Nil: it is not written.
	Progress io.Writer
}

// Run writes the setting and waits until all agents follow it. Each of both steps ends with the timeout. It writes the
// outcome of each node to Out. Returns an error if not every agent follows, or none is found.
func (r *Request) Run(ctx context.Context) error {
	err := r.inTime(ctx, r.write)
	if err == nil {
		err = r.inTime(ctx, r.wait)
	}
	if none, is := errors.AsType[noAgentsError](err); is {
		return r.noAgents(none)
	}
	if r.All && r.Setting == arming.Disarm && (err == nil || errors.Is(err, errNotAll)) {
		r.writeUnaffected()
	}
	return err
}

func (r *Request) inTime(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	return step(ctx)
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
