package trial_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// kernelNode is an agent's view of a real cgroup, without pods to evict.
type kernelNode struct{ *stats.Node }

func (n kernelNode) Observe(into *signals.Observations, kind signals.Kind) {
	n.Node.Observe(kind, time.Now(), into)
}
func (kernelNode) Measure(context.Context) []signals.Candidate { panic("pods are not read") }
func (kernelNode) Stored() []signals.Candidate                 { return nil }
func (kernelNode) Checked(*agent.Outcome, *eviction.Policy)    {}
func (kernelNode) Refresh(context.Context)                     {}
func (kernelNode) Report(*agent.Decision)                      {}
func (kernelNode) Save(eviction.Saved)                         {}

// BenchmarkPass measures one complete pass of the agent without an eviction: the reads from the
// real kernel, the decision, and the time of the next check.
func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{110, 250, 500} {
		for kind, regular := range map[string]time.Duration{"early": time.Hour, "periodic": time.Nanosecond} {
			b.Run(fmt.Sprintf("%s/pods=%d", kind, pods), func(b *testing.B) { benchmarkPass(b, pods, regular) })
		}
	}
}

func benchmarkPass(b *testing.B, pods int, period time.Duration) {
	sandbox.Need(b)
	n, err := trial.NewNode("pass", 512*mib)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	}()
	for i := range pods {
		if _, err := n.Node.AddPod(fmt.Sprintf("pass-%d", i), sandbox.Burstable, "app", "sidecar"); err != nil {
			b.Fatal(err)
		}
	}
	observed, err := stats.OpenNode(stats.Options{NodeCgroup: n.Path(), KubeReserved: 16 * mib})
	if err != nil {
		b.Fatal(err)
	}
	defer observed.Close()
	policy, err := eviction.NewPolicy(eviction.Settings{
		Thresholds: []eviction.Threshold{
			{Signal: signals.MemoryAvailable, Value: eviction.Value{Quantity: signals.Quantity{Value: 100 * mib}}},
			{Signal: signals.PIDAvailable, Value: eviction.Value{Quantity: signals.Quantity{Value: 100}}},
		},
		BindAllocatable: true, TransitionPeriod: time.Minute, EarlyEvictionHorizon: time.Second / 2,
	})
	if err != nil {
		b.Fatal(err)
	}
	k := kernelNode{observed}
	a := agent.New(agent.Settings{Period: period, MaxFillRate: 1 << 30}, agent.Parts{
		Machine: eviction.New(policy), Observer: k, Pods: k, Inventory: k, Reporter: k,
	})
	ctx := context.Background()
	a.Step(ctx, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		a.Step(ctx, time.Now())
	}
}
