package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/metrics"
)

// A listCounter counts lists of sandboxes, with which the removal of a pod begins.
type listCounter struct {
	gc.Runtime // nil: no other method is called
	lists      atomic.Int64
}

func (a *listCounter) Sandboxes(context.Context) ([]cri.Sandbox, error) {
	a.lists.Add(1)
	return nil, nil
}

func (a *listCounter) Containers(context.Context) ([]cri.Container, error) { return nil, nil }

func (a *listCounter) Images(context.Context) ([]cri.Image, error) { return nil, nil }

// scraped returns the metrics as they are served.
func scraped(m *metrics.Metrics) string {
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.String()
}

// A decision that differs from the kubelet's is counted once, when it is reported.
func TestReporter_CountsSparedPods(t *testing.T) {
	lines := decisionlog.NewLines(io.Discard)
	defer lines.Close()
	r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{LinesDropped: lines.Lost})}
	memory := signals.MemoryAvailable.String()
	for _, d := range []*agent.Decision{
		{Decision: agent.NoneHelps, Signal: memory, Spared: 3, KubeletWouldEvict: "default/a"},
		{Decision: agent.Limited, LimitedBy: "quota", Signal: memory, Spared: 2}, // behind a pod that is limited
		{Decision: agent.Evicted, Signal: memory},
	} {
		r.Report(d)
	}
	page := scraped(r.metrics)
	for _, want := range []string{`plimsoll_pods_spared_total{eviction_signal="memory.available"} 5`, `plimsoll_eviction_choices_differ_total{eviction_signal="memory.available"} 1`} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("%s is not served", want)
		}
	}
}

// A soft eviction for a full disk respects grace period and budget: the layers are removed
// when the pod has ended.
func TestReporter_RemovesLayersWhenPodHasEnded(t *testing.T) {
	for _, tc := range []struct {
		about string
		hard  bool
		ends  *agent.Decision
		want  int64
	}{
		{"hard", true, nil, 1},
		{"soft, requested", false, nil, 0},
		{"soft, withdrawn", false, &agent.Decision{Decision: agent.Withdrawn}, 0},
		{"soft, failed", false, &agent.Decision{Decision: agent.SoftEnded, Failed: []agent.PodReason{{}}}, 0},
		{"soft, ended", false, &agent.Decision{Decision: agent.SoftEnded}, 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &listCounter{}
				log := slog.New(slog.DiscardHandler)
				c := config.NewAgent()
				c.GarbageCollection = "on"
				lines := decisionlog.NewLines(io.Discard)
				defer lines.Close()
				r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{}), arming: stateWithoutFile(false), beside: func(run func(context.Context)) { go run(t.Context()) }, garbage: &garbageCollector{
					kubelet: &kubeletDetector{config: c, log: log}, log: log, arming: stateWithoutFile(false),
					collector: gc.New(runtime, nil, noOwners{}, nil, log, gc.Options{}),
				}}
				cause := signals.NodefsAvailable.String()
				r.record(&agent.Outcome{Snapshot: &signals.Snapshot{}, Evicted: &eviction.Eviction{Pod: &signals.Pod{UID: "u"}, Cause: cause, Hard: tc.hard}})
				if tc.ends != nil {
					tc.ends.Signal, tc.ends.UID = cause, "u"
					r.Report(tc.ends)
				}
				synctest.Wait()
				if n := runtime.lists.Load(); n != tc.want {
					t.Errorf("the pod's containers were removed %d times, want %d", n, tc.want)
				}
			})
		})
	}
}
