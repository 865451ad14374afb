package app

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
)

// An askedRuntime counts how often somebody wanted to remove a pod, which
// begins with a list.
type askedRuntime struct {
	gc.Runtime // nil: nothing else is asked
	lists      atomic.Int64
}

func (a *askedRuntime) Sandboxes(context.Context) ([]cri.Sandbox, error) {
	a.lists.Add(1)
	return nil, nil
}

func (a *askedRuntime) Containers(context.Context) ([]cri.Container, error) { return nil, nil }

func (a *askedRuntime) Images(context.Context) ([]cri.Image, error) { return nil, nil }

// A pod that is to end softly keeps its grace period and its budget, though a
// disk is full: its layers are given back when it has ended.
func TestReporter_RemovesLayersWhenPodHasEnded(t *testing.T) {
	for _, tc := range []struct {
		about string
		hard  bool
		ends  *agent.Decision
		want  int64
	}{
		{"at once", true, nil, 1},
		{"asked to end", false, nil, 0},
		{"taken back", false, &agent.Decision{Decision: agent.Withdrawn}, 0},
		{"could not be ended", false, &agent.Decision{Decision: agent.Terminated, Failed: []agent.Place{{}}}, 0},
		{"ended softly", false, &agent.Decision{Decision: agent.Terminated}, 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime := &askedRuntime{}
				log := slog.New(slog.DiscardHandler)
				c := config.NewAgent()
				c.Reclaim = "on"
				lines := nodestatus.NewLines(io.Discard)
				defer lines.Close()
				r := &reporter{lines: lines, metrics: metrics.New(metrics.Settings{}), arming: flagged(false), ctx: t.Context(), garbage: &garbageCollector{
					kubelet: &kubeletDetector{config: c, log: log}, log: log, arming: flagged(false),
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
