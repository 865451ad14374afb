package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"

	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/internal/natural"
)

const (
	// reactionTime is the time in which an agent follows a setting and updates its lease.
	// A later update means that it does not follow.
	reactionTime = 3 * time.Second
	// maxLeaseAge is the age above which the agent of a lease counts as dead.
	maxLeaseAge = 3 * heartbeat.LeaseDuration
)

// leasePatience allows for the list of a large cluster's leases.
var leasePatience = reflector.Timeouts{List: time.Minute, Open: 90 * time.Second, Pauses: wait.Backoff{Duration: time.Second, Steps: 1}}

// wait waits until the agents' leases have the setting, and reports the outcome of each node. All
// leases are read by one list and one watch. Returns an error if they cannot be read, and those of
// [Request.report].
func (r *Request) wait(ctx context.Context) error {
	seen, begun := newLeases(), r.begin()
	kind := reflector.Kind[*coordinationv1.LeaseList]{What: "leases of agents", From: r.Client.Leases(r.Namespace),
		Example: &coordinationv1.Lease{}, Into: seen, Patience: leasePatience}
	if len(r.Nodes) == 1 {
		kind.Selector = fields.OneTermEqualSelector("metadata.name", r.Nodes[0])
	}
	watch, end := context.WithCancel(ctx)
	failed := make(chan error, 1)
	ended := kind.Run(watch, r.Client, func(ctx context.Context, err error) {
		if ctx.Err() == nil {
			select {
			case <-failed:
			default:
			}
			failed <- err
		}
	})
	found, complete := r.await(ctx, seen, begun)
	end()
	ended()
	if !complete {
		return fmt.Errorf("the setting is written, but the state of the agents is unknown: read their leases in the namespace %s: %w", r.Namespace, cmp.Or(lastError(failed), ctx.Err()))
	}
	return r.report(found)
}

// begin is the begin of a wait by two clocks: that of this machine, and that of the API server.
type begin struct{ here, there time.Time }

func (r *Request) begin() begin {
	b := begin{here: time.Now()}
	if b.there = b.here; r.Now != nil {
		b.there = r.Now()
	}
	return b
}

func lastError(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// pollPeriod is the interval between counts of the nodes that follow: thousands of leases
// may change in a second.
const pollPeriod = 500 * time.Millisecond

// outcome is the state of a node with regard to the setting.
type outcome struct {
	node     string
	followed bool
	ignored  bool // its agent is dead, and the setting needs none
	absent   bool // no agent has a lease for it
	final    bool // no change is expected
	reason   string
}

// await returns the outcomes once all are final, or those at the end of ctx; complete is whether the leases were listed.
func (r *Request) await(ctx context.Context, seen *leases, begun begin) (found []outcome, complete bool) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for before := -1; ; {
		over := ctx.Err() != nil // before the leases are read: what arrived until the end counts
		var nodes []string
		nodes, complete = seen.nodes()
		if !r.All {
			nodes = r.Nodes
		}
		slices.SortFunc(nodes, natural.Compare)
		found = make([]outcome, 0, len(nodes))
		for _, node := range nodes {
			found = append(found, r.outcomeOf(node, seen, begun))
		}
		if over || complete && !slices.ContainsFunc(found, func(f outcome) bool { return !f.final }) {
			return found, complete
		}
		if complete {
			before = r.progress(found, before)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// progress writes how many nodes follow, unless it was so before. It returns that number.
func (r *Request) progress(found []outcome, before int) int {
	n := followers(found)
	if r.Progress != nil && n != before {
		fmt.Fprintln(r.Progress, r.count(n, found)) // without it the outcome is the same
	}
	return n
}

func followers(found []outcome) (n int) {
	for i := range found {
		if found[i].followed {
			n++
		}
	}
	return n
}

func (r *Request) count(followed int, found []outcome) string {
	return fmt.Sprintf("%d of %d nodes: %s", followed, len(found), doneText[r.Setting])
}

func (r *Request) outcomeOf(node string, seen *leases, begun begin) outcome {
	a, known, updated := seen.agent(node)
	f := outcome{node: node, reason: cmp.Or(a.reason, "its agent, of an older version, reports no reason")}
	dead := known && begun.there.Sub(a.renewed) > maxLeaseAge && updated.IsZero()
	switch {
	case !known:
		f.absent, f.reason = true, "no agent has a lease for it in the namespace "+r.Namespace
	case r.follows(a) && (r.Setting != arming.Arm || !dead): // a dead agent does not act
		f.followed, f.final = true, true
	case dead:
		f.final, f.ignored = true, r.Setting != arming.Arm
		f.reason = "no agent has renewed its lease since " + a.renewed.UTC().Format(time.RFC3339)
	default: // an agent may refuse to arm itself; it follows the other settings
		f.final = r.Setting == arming.Arm && updated.Sub(begun.here) > reactionTime
	}
	return f
}

func (r *Request) follows(a agentLease) bool {
	switch r.Setting {
	case arming.Arm:
		return a.armed == "true"
	case arming.Cleanup:
		return a.reason == arming.CleanedUp
	}
	return a.armed == "false"
}

// maxListed is the number of nodes up to which those that follow are listed.
const maxListed = 20

// report writes the outcome of every node, those that do not follow first. Returns an
// error if a node does not follow, or has no agent.
func (r *Request) report(found []outcome) error {
	if len(found) == 0 {
		return noAgentsError{written: true}
	}
	var b strings.Builder
	missing, absent, codes := 0, []string(nil), map[string]bool{}
	for _, f := range found {
		if f.followed {
			continue
		}
		fmt.Fprintf(&b, "%s: not %s: %s\n", f.node, doneText[r.Setting], f.reason)
		if !f.ignored {
			missing++
		}
		if f.absent {
			absent = append(absent, f.node)
		}
		if refused, is := strings.CutPrefix(f.reason, arming.Refusal+": "); is {
			for code := range strings.SplitSeq(refused, ", ") {
				codes[code] = true
			}
		}
	}
	remedies(&b, codes)
	for _, f := range found {
		if f.followed && len(found) <= maxListed {
			fmt.Fprintf(&b, "%s: %s (%s)\n", f.node, doneText[r.Setting], f.reason)
		}
	}
	fmt.Fprintln(&b, r.count(followers(found), found))
	if _, err := r.Out.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("read the state of the agents: %w", err)
	}
	switch {
	case len(absent) > 0:
		return noAgentsError{written: true, nodes: absent}
	case missing > 0:
		return errNotAll
	}
	return nil
}

// remedies writes for each finding that keeps agents disarmed what can be done about it.
func remedies(b *strings.Builder, codes map[string]bool) {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		for _, known := range doctor.NodeCodes() {
			if known.Code == code {
				fmt.Fprintf(b, "%s: %s\n  Remedy: %s\n  Or accept it: --accept-findings=%s\n", code, known.Means, known.Remedy, code)
			}
		}
	}
}
