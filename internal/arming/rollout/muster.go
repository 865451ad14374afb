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
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

const (
	// hearingTime is what an agent may take to hear a word and to say so: what it
	// says after that it says in spite of the word.
	hearingTime = 3 * time.Second
	// deadAge is how old a lease is whose agent is not waited for.
	deadAge = 3 * nodestatus.LeaseDuration
)

// patienceWithLeases: a list of those of a large cluster takes a while.
var patienceWithLeases = reflector.Patience{List: time.Minute, Open: 90 * time.Second, Pauses: wait.Backoff{Duration: time.Second, Steps: 1}}

// muster waits until the agents' leases say that they have followed, and says of
// each node what became of it. All leases are read in one list and one watch.
func (o *Request) muster(ctx context.Context, clients *client.Clients) error {
	r, begun := newRoll(), time.Now()
	kind := reflector.Kind[*coordinationv1.LeaseList]{What: "leases of agents", From: clients.Watching.CoordinationV1().Leases(o.Namespace),
		Example: &coordinationv1.Lease{}, Into: r, Patience: patienceWithLeases}
	if len(o.Nodes) == 1 {
		kind.Selector = fields.OneTermEqualSelector("metadata.name", o.Nodes[0])
	}
	watch, end := context.WithCancel(ctx)
	failed := make(chan error, 1)
	ended := kind.Run(watch, clients.Watching, func(ctx context.Context, err error) {
		if ctx.Err() == nil {
			select {
			case <-failed:
			default:
			}
			failed <- err
		}
	})
	found := o.await(ctx, r, begun)
	end()
	ended()
	if _, complete := r.names(); !complete {
		return fmt.Errorf("the word is said; whether agents follow is not known: read their leases in the namespace %s: %w", o.Namespace, cmp.Or(latest(failed), ctx.Err()))
	}
	return o.tell(found)
}

func latest(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// countPeriod is how often nodes are counted that have followed: thousands of
// leases may change in a second.
const countPeriod = 500 * time.Millisecond

// A fate is what became of the word on a node.
type fate struct {
	node     string
	followed bool
	excused  bool // nobody is there to follow, and nothing is lost by it
	absent   bool // no agent has a lease for it
	final    bool // it is not going to change soon
	why      string
}

// await returns the fates once all are final, or ctx ends.
func (o *Request) await(ctx context.Context, r *roll, begun time.Time) []fate {
	tick := time.NewTicker(countPeriod)
	defer tick.Stop()
	for {
		nodes, complete := r.names()
		if !o.All {
			nodes = o.Nodes
		}
		slices.Sort(nodes)
		found := make([]fate, 0, len(nodes))
		for _, node := range nodes {
			found = append(found, o.fateOf(node, r, begun))
		}
		if complete && !slices.ContainsFunc(found, func(f fate) bool { return !f.final }) {
			return found
		}
		select {
		case <-ctx.Done():
			return found
		case <-tick.C:
		}
	}
}

func (o *Request) fateOf(node string, r *roll, begun time.Time) fate {
	a, known, heard := r.of(node)
	f := fate{node: node, why: cmp.Or(a.reason, "its agent does not say why: it is of an older version")}
	dead := known && begun.Sub(a.renewed) > deadAge && heard.IsZero()
	switch {
	case !known:
		f.absent, f.why = true, "no agent has a lease for it in the namespace "+o.Namespace
	case o.reached(a) && (o.Word != arming.Arm || !dead): // the dead do not act
		f.followed, f.final = true, true
	case dead:
		f.final, f.excused = true, o.Word != arming.Arm
		f.why = "no agent has been heard of since " + a.renewed.UTC().Format(time.RFC3339)
	default: // an agent that does not arm itself has reasons; the other words are followed
		f.final = o.Word == arming.Arm && heard.Sub(begun) > hearingTime
	}
	return f
}

func (o *Request) reached(a agentLease) bool {
	switch o.Word {
	case arming.Arm:
		return a.armed == "true"
	case arming.Leave:
		return a.reason == arming.HasLeft
	}
	return a.armed == "false"
}

// mostTold is how many nodes that have followed are told one by one.
const mostTold = 20

// tell says what became of every node, those that have not followed last.
func (o *Request) tell(found []fate) error {
	if len(found) == 0 {
		return noAgentsError{written: true}
	}
	var b strings.Builder
	followed, missing := 0, 0
	for _, f := range found {
		if f.followed {
			if followed++; len(found) <= mostTold {
				fmt.Fprintf(&b, "%s: %s (%s)\n", f.node, done[o.Word], f.why)
			}
		}
	}
	codes := map[string]bool{}
	var absent []string
	for _, f := range found {
		if f.followed {
			continue
		}
		fmt.Fprintf(&b, "%s: not %s: %s\n", f.node, done[o.Word], f.why)
		if !f.excused {
			missing++
		}
		if f.absent {
			absent = append(absent, f.node)
		}
		if refused, is := strings.CutPrefix(f.why, arming.Refusal+": "); is {
			for code := range strings.SplitSeq(refused, ", ") {
				codes[code] = true
			}
		}
	}
	remedies(&b, codes)
	fmt.Fprintf(&b, "%d of %d nodes: %s\n", followed, len(found), done[o.Word])
	if _, err := o.Out.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("tell what became of the word: %w", err)
	}
	switch {
	case len(absent) > 0:
		return noAgentsError{written: true, nodes: absent}
	case missing > 0:
		return errNotAll
	}
	return nil
}

// remedies says once for each finding that keeps agents from arming themselves
// what to do about it.
func remedies(b *strings.Builder, codes map[string]bool) {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		for _, known := range doctor.NodeCodes() {
			if known.Code == code {
				fmt.Fprintf(b, "%s: %s\n  Remedy: %s\n  Or accept it: --accept-findings=%s\n", code, known.Means, known.Remedy, code)
			}
		}
	}
}
