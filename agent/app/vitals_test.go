package app

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/vitals"
)

// Each signal is published with its highest hard and its highest soft threshold, once for each
// filesystem.
func TestReadings_HaveHighestThresholds(t *testing.T) {
	at := func(s signals.Signal, amount signals.Amount, grace time.Duration) eviction.Threshold {
		return eviction.Threshold{Signal: s, Value: eviction.Value{Quantity: signals.Quantity{Value: amount}}, Grace: grace}
	}
	percent := eviction.Threshold{Signal: signals.NodefsAvailable, Value: eviction.Value{Fraction: 0.5, Percent: "50%"}}
	p, err := eviction.NewPolicy(eviction.Settings{Thresholds: []eviction.Threshold{
		at(signals.MemoryAvailable, 100, 0), at(signals.MemoryAvailable, 200, time.Hour), at(signals.MemoryAvailable, 300, time.Minute),
		at(signals.AllocatableMemoryAvailable, 150, 0), percent, at(signals.PIDAvailable, 7, 0), at(signals.PIDAvailable, 9, time.Minute),
	}, BindAllocatable: true, Layout: signals.Single})
	if err != nil {
		t.Fatal(err)
	}
	s := &signals.Snapshot{}
	s.Node[signals.MemoryAvailable] = signals.Observed(250, 1000, s.At)
	s.Node[signals.AllocatableMemoryAvailable] = signals.Observed(120, 1000, s.At)
	s.Node[signals.NodefsAvailable] = signals.Observed(60, 100, s.At)
	s.Node[signals.ContainerfsAvailable] = s.Node[signals.NodefsAvailable]
	s.Node[signals.PIDAvailable] = signals.Unknown("no file")
	const want = "memory.available=250/100,memory.available=250/300/soft,allocatableMemory.available=120/150,nodefs.available=60/50,pid.available=unknown"
	if got := vitals.FormatReadings(readings(s, p)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The heartbeat has the last pod that was evicted: no dry run, and no soft eviction that is not over.
func TestReporter_PublishesLastEviction(t *testing.T) {
	lines, log := decisionlog.NewLines(io.Discard), slog.New(slog.DiscardHandler)
	defer lines.Close()
	r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(true),
		beside:  func(func(context.Context)) {},
		garbage: &garbageCollector{kubelet: &kubeletDetector{config: config.NewAgent(), log: log}, log: log}}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	evict := func(name string, hard, dryRun bool) *agent.Outcome {
		return &agent.Outcome{Snapshot: &signals.Snapshot{At: noon}, DryRun: dryRun,
			Evicted: &eviction.Eviction{Pod: &signals.Pod{Namespace: "ns", Name: name}, Cause: signals.MemoryAvailable.String(), Hard: hard}}
	}
	ended := &agent.Decision{Decision: agent.SoftEnded, Time: noon, Pod: "ns/polite", Signal: signals.NodefsAvailable.String()}
	failed := &agent.Decision{Decision: agent.SoftEnded, Time: noon, Pod: "ns/stays", Signal: ended.Signal, Failed: []agent.PodReason{{}}}
	for _, step := range []struct {
		about string
		run   func()
		want  string
	}{
		{"nothing yet", func() {}, ""},
		{"dry run", func() { r.record(evict("spared", true, true)) }, ""},
		{"hard", func() { r.record(evict("first", true, false)) }, "2026-03-01T12:00:00Z ns/first memory.available"},
		{"soft, requested", func() { r.record(evict("asked", false, false)) }, "2026-03-01T12:00:00Z ns/first memory.available"},
		{"soft, failed", func() { r.Report(failed) }, "2026-03-01T12:00:00Z ns/first memory.available"},
		{"soft, ended", func() { r.Report(ended) }, "2026-03-01T12:00:00Z ns/polite nodefs.available"},
	} {
		step.run()
		if got := r.currentVitals().LastEviction.String(); got != step.want {
			t.Errorf("%s: got %q, want %q", step.about, got, step.want)
		}
	}
}
