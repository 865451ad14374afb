package liveness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/evict"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// hard are the signals that can be exhausted, with their hard thresholds.
var hard = []eviction.Threshold{
	{Signal: signals.MemoryAvailable, Value: quantity(100 * mib)},
	{Signal: signals.NodefsAvailable, Value: quantity(10 * gib)},
	{Signal: signals.NodefsInodesFree, Value: quantity(1000)},
	{Signal: signals.PIDAvailable, Value: quantity(100)},
}

var capacities = map[signals.Signal]signals.Amount{signals.MemoryAvailable: 4 * gib, signals.NodefsAvailable: 100 * gib, signals.NodefsInodesFree: 100_000, signals.PIDAvailable: 10_000}

func quantity(a signals.Amount) eviction.Value {
	return eviction.Value{Quantity: signals.Quantity{Value: a}}
}

// pod is a pod of a random node. The node's mutex guards its usage.
type pod struct {
	signals.Pod
	node *node
	uses map[signals.Signal]signals.Amount

	empty    bool          // has no process, only files in memory
	stubborn bool          // ignores SIGTERM
	resists  time.Duration // cannot be killed; from its status until the kubelet has ended it; 0: it can
	failed   bool          // stored as failed by the API server, and no longer listed
	budget   int           // the answer to its soft eviction
	unmounts time.Duration // from its end until its resources are released
	again    time.Duration // from its eviction until its owner replaces it; 0: never
	ended    chan struct{} // closed when its last process has ended
	over     bool
}

// The answers to a request for a soft eviction.
const (
	allowed = iota
	neverAllowed
	neverActedOn
	answers
)

// node implements all ports of the agent.
type node struct {
	r        *rand.Rand
	collects *rand.Rand            // for the collection in progress
	searches [signals.Count]uint64 // number of searches for consumers
	seed     uint64
	mu       sync.Mutex
	pods     []*pod    // running
	fading   []*pod    // ended, with resources not yet released
	grew     time.Time // last growth of usage outside of pods
	made     int
	wake     chan struct{}
	ladder   *evict.Evictor
	slow     time.Duration // minimum time between two checks
	*monitor
}

func (n *node) uses(s signals.Signal) (sum signals.Amount) {
	for _, p := range slices.Concat(n.pods, n.fading) {
		sum += p.uses[s]
	}
	return sum
}

// available returns the available amount of a signal; the caller holds the mutex.
func (n *node) available(s signals.Signal) signals.Amount { return capacities[s] - n.uses(s) }

func (n *node) add(name string, p *pod) *pod {
	n.made++
	p.node, p.Name, p.UID = n, name, fmt.Sprintf("%06d-%s", n.made, name)
	p.ended = make(chan struct{})
	p.Volumes = []signals.Volume{{Name: "data", Local: true}}
	n.pods = append(n.pods, p)
	return p
}

// end ends all processes of a pod; the caller holds the mutex.
func (n *node) end(p *pod) {
	if p.over {
		return
	}
	p.over = true
	uses := maps.Clone(p.uses)
	close(p.ended)
	n.pods = slices.DeleteFunc(n.pods, func(o *pod) bool { return o == p })
	n.fading, n.grew = append(n.fading, p), time.Now()
	delete(p.uses, signals.PIDAvailable)
	n.later(p.unmounts, func() {
		n.fading = slices.DeleteFunc(n.fading, func(o *pod) bool { return o == p })
	})
	if p.again > 0 {
		next := *p
		next.Pod.EndsBy, next.over, next.failed, next.uses = time.Time{}, false, false, uses
		n.later(p.again, func() {
			for s := range uses { // at most the capacity
				uses[s] = min(uses[s], max(n.available(s), 0))
			}
			n.add(p.Name, &next)
		})
	}
}

func (n *node) later(after time.Duration, change func()) {
	time.AfterFunc(after, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		change()
	})
}

// Observe implements agent.Observer.
func (n *node) Observe(into *signals.Observations, kind signals.Kind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range hard {
		if kind == signals.Periodic || t.Signal.OfMemory() {
			into[t.Signal] = signals.Observed(n.available(t.Signal), capacities[t.Signal], time.Now())
		}
	}
}

// Measure implements agent.Pods.
func (n *node) Measure(context.Context) (all []signals.Candidate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.failed {
			continue
		}
		copied := p.Pod
		all = append(all, signals.Candidate{Pod: &copied, Usage: &signals.Usage{
			Memory:    signals.Of(signals.Bytes(p.uses[signals.MemoryAvailable])),
			Processes: signals.Of(signals.PIDs(p.uses[signals.PIDAvailable])),
			Volumes: []signals.VolumeUsage{{Name: "data", FilesystemUsage: signals.FilesystemUsage{
				Bytes: signals.Of(signals.Bytes(p.uses[signals.NodefsAvailable])), Inodes: signals.Of(signals.Inodes(p.uses[signals.NodefsInodesFree]))}}},
		}})
	}
	return all
}

func (n *node) Stored() []signals.Candidate { return n.Measure(context.Background()) }
func (n *node) Refresh(context.Context)     {}

// Collect implements agent.Collector: there is no garbage, and finding out takes a while, so that what is observed
// after it is a new sample.
func (n *node) Collect(ctx context.Context, _ []signals.Garbage, _ func(*signals.Observations) bool) []signals.Garbage {
	select {
	case <-time.After(time.Duration(1+n.collects.IntN(5000)) * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// Consumers implements agent.Consumers: other ones in each search, which takes a while or longer.
func (n *node) Consumers(ctx context.Context, of agent.Shortage) (found signals.Consumption) {
	n.mu.Lock()
	n.searches[of.Signal]++
	r := rand.New(rand.NewPCG(n.seed+uint64(of.Signal), n.searches[of.Signal]))
	n.mu.Unlock()
	select {
	case <-time.After(time.Duration(r.IntN(40_000)) * time.Millisecond):
	case <-ctx.Done():
	}
	for i := range r.IntN(3) {
		found.Largest = append(found.Largest, signals.Consumer{Name: fmt.Sprint("/", r.IntN(3)), Kind: signals.ConsumerHostPath, Amount: signals.Amount((3-i)*gib + r.IntN(gib))})
	}
	return found
}

// Wait implements agent.Notifier on a slow machine: checks are late.
func (n *node) Wait(until time.Time, _ bool) signals.Wakes {
	select {
	case <-time.After(max(time.Until(until), n.slow)):
		return 0
	case <-n.wake:
		return signals.ByRequest
	}
}

func (n *node) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *node) Follow(*signals.Observations, []signals.Line) {}

// Victim implements agent.Victims.
func (n *node) Victim(e *eviction.Eviction) (agent.Victim, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.pods, func(p *pod) bool { return p.UID == e.Pod.UID })
	if i < 0 {
		return nil, errors.New("it has ended")
	}
	return &victim{n.pods[i], e}, nil
}

// victim is a pod as ended by the agent and its Evictor.
type victim struct {
	pod      *pod
	eviction *eviction.Eviction
}

func killed(r evict.Result, err error) (agent.EvictionResult, error) {
	k := agent.EvictionResult{Processes: r.Signalled, Withdrawn: r.Withdrawn, GivenUp: r.GivenUp, ProcessesRemain: r.ProcessesRemain}
	if r.Reported {
		k.Status = agent.StatusReported
	}
	return k, err
}

func (v *victim) Immediate(ctx, reporting, waiting context.Context, wait time.Duration) (agent.EvictionResult, error) {
	return killed(v.pod.node.ladder.Immediate(ctx, reporting, waiting, wait, v.eviction, v))
}

func (v *victim) Graceful(ctx context.Context, grace time.Duration, change agent.Changes) (agent.EvictionResult, error) {
	return killed(v.pod.node.ladder.Graceful(ctx, v.eviction, v, grace, evict.Changes(change)))
}

func (v *victim) Finish(ctx context.Context) (agent.EvictionResult, error) {
	e, err := v.Kill(ctx)
	return killed(evict.Result{Ended: e}, err)
}

func (v *victim) Containers() []string { return nil }

func (v *victim) Kill(context.Context) (e evict.Ended, err error) {
	n := v.pod.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if v.pod.resists > 0 && !v.pod.over {
		return e, errors.New("it cannot be killed")
	}
	if !v.pod.over && !v.pod.empty {
		e.Signalled = 1
	}
	n.end(v.pod)
	return e, nil
}

func (v *victim) End(ctx context.Context, _ time.Duration, _ <-chan struct{}) (evict.Ended, error) {
	return v.Kill(ctx)
}

func (v *victim) Await(ctx context.Context) error {
	select {
	case <-v.pod.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// server simulates the API server.
type server struct{ node *node }

func (s server) Enqueue(evict.Notice)  {}
func (s server) Commit(evict.Notice)   {}
func (s server) Cancel(evict.Notice)   {}
func (s server) Announce(evict.Notice) {}

// Report implements evict.Status: the kubelet ends a pod that the agent cannot kill.
func (s server) Report(_ context.Context, notice evict.Notice) error {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.UID == notice.Eviction.Pod.UID && p.resists > 0 && !p.failed {
			p.failed = true
			n.later(p.resists, func() { n.end(p) })
		}
	}
	return nil
}

func (s server) Request(_ context.Context, n evict.Notice, grace time.Duration) (evict.Answer, error) {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	i := slices.IndexFunc(s.node.pods, func(p *pod) bool { return p.UID == n.Eviction.Pod.UID })
	if i < 0 {
		return evict.Answer{Accepted: true}, nil
	}
	p := s.node.pods[i]
	switch p.budget {
	case neverAllowed:
		return evict.Answer{Retry: 5 * time.Second, Why: "the budget allows no disruption"}, nil
	case neverActedOn:
		return evict.Answer{}, nil
	}
	p.EndsBy = time.Now().Add(grace)
	ends := time.Second
	if p.stubborn {
		ends = grace
	}
	s.node.later(ends, func() { s.node.end(p) })
	return evict.Answer{Accepted: true}, nil
}

func (s server) Withdraw(context.Context, evict.Notice) error { return nil }

func (s server) Ending(n evict.Notice) bool {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	return !slices.ContainsFunc(s.node.pods, func(p *pod) bool { return p.UID == n.Eviction.Pod.UID && p.EndsBy.IsZero() })
}
