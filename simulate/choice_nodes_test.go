package simulate_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
)

var (
	nodesFlag  = flag.Uint64("nodes", 200, "number of random nodes that run with either choice")
	limitsFlag = flag.Bool("limits", false, "all random nodes have the agent's default limits on evictions, instead of half of them")
	againFlag  = flag.Bool("again", false, "the check after an eviction is periodic, as that of an agent on a node")
)

const (
	nodeTick = 100 * time.Millisecond // between two checks
	nodeLife = 3 * time.Minute
	nodeSize = 4096 // MiB of memory, or ten times as many PIDs
)

// load is usage that changes with time, in units of a MiB or ten PIDs.
type load struct {
	base, rate, peak float64 // rate per second from the start on, up to peak
	start, shrink    time.Duration
}

func (l load) at(t time.Duration) float64 {
	grown := min(l.base+l.rate*max(0, t-l.start).Seconds(), max(l.base, l.peak))
	if l.shrink > 0 && t > l.shrink {
		return l.base / 2
	}
	return grown
}

// nodePod is a pod of a random node. Its owner replaces it after the given time; 0: never.
type nodePod struct {
	signals.Pod
	load
	hog   bool
	again time.Duration
	gone  time.Duration // since when it is evicted; -1: it runs
}

// choiceNode is a node in virtual time: the agent's check by one threshold, and what follows from it.
type choiceNode struct {
	of      signals.Signal
	unit    signals.Amount
	pods    []*nodePod
	outside load
	now     time.Duration
	lines   eviction.Threshold
	limits  limiter.Policy
}

func (n *choiceNode) usage(p *nodePod) signals.Amount {
	since := n.now
	if p.gone >= 0 {
		if p.again == 0 || n.now < p.gone+p.again {
			return 0
		}
		since = n.now - p.gone - p.again // it begins anew
	}
	return signals.Amount(p.at(since) * float64(n.unit))
}

func (n *choiceNode) runs(p *nodePod) bool {
	return p.gone < 0 || p.again > 0 && n.now >= p.gone+p.again
}

func (n *choiceNode) available() signals.Amount {
	left := nodeSize*n.unit - signals.Amount(n.outside.at(n.now)*float64(n.unit))
	for _, p := range n.pods {
		left -= n.usage(p)
	}
	return left
}

func (n *choiceNode) time() time.Time { return time.Unix(1000, 0).Add(n.now) }

// Observe implements agent.Observer.
func (n *choiceNode) Observe(into *signals.Observations, kind signals.Kind) {
	if kind == signals.Periodic || n.of.OfMemory() {
		into[n.of] = signals.Observed(n.available(), nodeSize*n.unit, n.time())
	}
}

// Measure implements agent.Pods.
func (n *choiceNode) Measure(context.Context) (all []signals.Candidate) {
	for _, p := range n.pods {
		if used := n.usage(p); n.runs(p) {
			all = append(all, signals.Candidate{Pod: &p.Pod, Usage: &signals.Usage{Memory: signals.Of(signals.Bytes(used)), Processes: signals.Of(signals.PIDs(used))}})
		}
	}
	return all
}

// Stored implements agent.Pods.
func (n *choiceNode) Stored() []signals.Candidate { return n.Measure(context.Background()) }

// nodeResult is how a node fared.
type nodeResult struct {
	lost                  bool
	evictions, bystanders int // evicted pods that did not grow
}

// run makes a check every tick, one of a hundred periodic, until the node is lost or its time is over.
func (n *choiceNode) run(c eviction.Choice) (r nodeResult, err error) {
	policy, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{n.lines}, Choice: c,
		TransitionPeriod: time.Minute, EarlyEvictionHorizon: 500 * time.Millisecond})
	if err != nil {
		return r, err
	}
	checker := &agent.Checker{Machine: eviction.New(policy), Observer: n, Pods: n, Limiter: limiter.New(n.limits)}
	var before signals.Observations
	again := false
	for n.now = 0; n.now < nodeLife; n.now += nodeTick {
		if n.available() <= 0 {
			r.lost = true
			return r, nil
		}
		s := &signals.Snapshot{At: n.time(), Kind: signals.Early}
		if n.now%(10*time.Second) == 0 || again {
			s.Kind = signals.Periodic
		}
		n.Observe(&s.Node, s.Kind)
		if was, is := &before[n.of], &s.Node[n.of]; was.Known && is.Known {
			s.Rates[n.of] = signals.Rate{By: was.Available - is.Available, Over: is.Time.Sub(was.Time)}
		}
		before = s.Node
		o := checker.Begin(s)
		for p := checker.Next(context.Background(), &agent.Constraints{}); p.Action != agent.Wait; p = checker.Next(context.Background(), &agent.Constraints{}) {
			checker.Apply(p, agent.PlanResult{})
		}
		checker.Spend(o)
		if again = *againFlag && o.Evicted != nil; o.Evicted == nil {
			continue
		}
		p := n.pods[slices.IndexFunc(n.pods, func(p *nodePod) bool { return p.UID == o.Evicted.Pod.UID })]
		p.gone = n.now
		r.evictions++
		if !p.hog {
			r.bystanders++
		}
	}
	return r, nil
}

// randomChoiceNode returns a node with hogs in pods, outside of pods, or both.
func randomChoiceNode(r *rand.Rand, of signals.Signal, where string) *choiceNode {
	n := &choiceNode{of: of, unit: mebi}
	if of == signals.PIDAvailable {
		n.unit = 10
	}
	n.lines = eviction.Threshold{Signal: of, Value: eviction.Value{Quantity: signals.Quantity{Value: n.unit * signals.Amount(100+r.IntN(5)*100)}}}
	if r.IntN(3) == 0 {
		n.lines.MinReclaim.Quantity.Value = n.unit * signals.Amount(r.IntN(600))
	}
	if r.IntN(2) == 0 || *limitsFlag {
		n.limits = limiter.Policy{MaxIneffective: 2, IneffectiveBackoff: 5 * time.Minute, OwnerBackoff: time.Minute}
	}
	for i := range 4 + r.IntN(16) {
		p := &nodePod{gone: -1, Pod: signals.Pod{UID: fmt.Sprintf("%02d", i), Namespace: "default", Name: fmt.Sprint(i), Owner: fmt.Sprint(i), Priority: int32(r.IntN(3))}}
		p.base = []float64{0.1, 1, 3, 8, 30, 120}[r.IntN(6)]
		if r.IntN(3) == 0 {
			p.MemoryRequest.Value = 200 * mebi
		}
		if r.IntN(6) == 0 {
			p.Protection = signals.Critical
		}
		if r.IntN(4) == 0 {
			p.again = time.Duration(1+r.IntN(20)) * time.Second
		}
		if r.IntN(5) == 0 { // grows a little, or shrinks
			p.rate, p.peak = 2, 2*p.base
			p.shrink = time.Duration(r.IntN(120)) * time.Second
		}
		n.pods = append(n.pods, p)
	}
	growth := func() load {
		return load{rate: []float64{3, 20, 100, 300}[r.IntN(4)], peak: float64(2500 + r.IntN(2500)), start: time.Duration(r.IntN(60_000)) * time.Millisecond}
	}
	if where != "outside" {
		for range 1 + r.IntN(2) {
			p := n.pods[r.IntN(len(n.pods))]
			p.load, p.hog = growth(), true
		}
	}
	if where != "pods" {
		n.outside = growth()
		n.outside.base = float64(r.IntN(2000))
	}
	return n
}

// TestChoice_LosesNoMoreNodes runs random nodes with either choice. A node is lost if its memory or
// its PIDs are used up. The choice that helps loses no more of them, and costs fewer bystanders.
//
// That holds for many nodes, not for each: a few are lost with it alone. Most of them lack a few MiB,
// which pods with less than a twentieth of the shortage hold together. Decision 040 explains ten. The
// default seed is fixed, because a small sample may by chance show the opposite.
func TestChoice_LosesNoMoreNodes(t *testing.T) {
	seed := cmp.Or(*seedFlag, 18)
	for _, of := range []signals.Signal{signals.MemoryAvailable, signals.PIDAvailable} {
		for _, where := range []string{"pods", "outside", "both"} {
			t.Run(of.String()+"/"+where, func(t *testing.T) {
				t.Parallel()
				var sum [2]nodeResult
				var lost [2]int
				var only [2][]uint64 // nodes lost with this choice alone
				for i := range *nodesFlag {
					var r [2]nodeResult
					for c := range r {
						var err error
						if r[c], err = randomChoiceNode(rand.New(rand.NewPCG(seed, i)), of, where).run(eviction.Choice(c)); err != nil {
							t.Fatal(err)
						}
						sum[c].evictions, sum[c].bystanders = sum[c].evictions+r[c].evictions, sum[c].bystanders+r[c].bystanders
					}
					for c := range r {
						if r[c].lost {
							lost[c]++
						}
						if r[c].lost && !r[1-c].lost {
							only[c] = append(only[c], i)
						}
					}
				}
				h, k := eviction.Helps, eviction.AsKubelet
				t.Logf("seed %d, %d nodes: helps lost %d, %d evictions, %d of bystanders; kubelet lost %d, %d evictions, %d of bystanders; lost with helps alone %v, with kubelet alone %d",
					seed, *nodesFlag, lost[h], sum[h].evictions, sum[h].bystanders, lost[k], sum[k].evictions, sum[k].bystanders, only[h], len(only[k]))
				if lost[h] > lost[k] {
					t.Errorf("seed %d: %d nodes lost, with the kubelet's choice %d", seed, lost[h], lost[k])
				}
				if sum[h].bystanders > sum[k].bystanders {
					t.Errorf("seed %d: %d bystanders evicted, with the kubelet's choice %d", seed, sum[h].bystanders, sum[k].bystanders)
				}
			})
		}
	}
}
