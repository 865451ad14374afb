package agent

import (
	"context"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
)

// steady is a node without changes.
type steady struct{ memory signals.Observation }

func (s steady) Observe(into *signals.Observations, _ signals.Kind) {
	into[signals.MemoryAvailable] = s.memory
}
func (steady) Measure(context.Context) []signals.Candidate { return nil }
func (steady) Stored() []signals.Candidate                 { return nil }
func (steady) Victim(*eviction.Eviction) (Victim, error)   { return nil, nil }
func (steady) Refresh(context.Context)                     {}
func (steady) Report(*Decision)                            {}
func (steady) Checked(*Outcome, *eviction.Policy)          {}
func (steady) Save(eviction.Saved)                         {}

func steadyAgent(tb testing.TB, available signals.Amount) *Agent {
	tb.Helper()
	policy, err := eviction.NewPolicy(eviction.Settings{
		Thresholds: []eviction.Threshold{{Signal: signals.MemoryAvailable,
			Value: eviction.Value{Quantity: signals.Quantity{Value: 100 << 20, Text: "100Mi"}}}},
		TransitionPeriod: 5 * time.Minute, EarlyEvictionHorizon: 500 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	s := steady{signals.Observed(available, 8<<30, time.Now())}
	return New(Settings{Period: 10 * time.Second, MaxFillRate: 4 << 30}, Parts{
		Machine: eviction.New(policy), Observer: s, Pods: s, Victims: s, Inventory: s, Reporter: s,
	})
}

func TestStep_EarlyCheckDoesNotAllocate(t *testing.T) {
	for name, available := range map[string]signals.Amount{"enough memory": 4 << 30, "met, not falling": 90 << 20} {
		t.Run(name, func(t *testing.T) {
			a := steadyAgent(t, available)
			now := time.Now()
			a.nextPeriodic = now.Add(time.Hour)
			a.Step(t.Context(), now) // the first check reports the met threshold
			if n := testing.AllocsPerRun(100, func() {
				now = now.Add(5 * time.Millisecond)
				a.Step(context.Background(), now)
			}); n != 0 {
				t.Errorf("%v allocations per check", n)
			}
		})
	}
}

func BenchmarkStepNothingToDo(b *testing.B) {
	a := steadyAgent(b, 4<<30)
	now := time.Now()
	a.nextPeriodic = now.Add(1e6 * time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(5 * time.Millisecond)
		a.Step(context.Background(), now)
	}
}
