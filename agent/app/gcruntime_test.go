package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/arming"
	"plimsoll.dev/plimsoll/internal/arming/disarmfile"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/evict"
	"plimsoll.dev/plimsoll/internal/gc"
	"plimsoll.dev/plimsoll/internal/kill"
	"plimsoll.dev/plimsoll/stats"
)

// A countingRuntime counts requests to stop or remove something.
type countingRuntime struct {
	gc.Runtime // nil: no other method is called
	removed    int
}

func (r *countingRuntime) note() error {
	r.removed++
	return nil
}

func (r *countingRuntime) Sandboxes(context.Context) ([]cri.Sandbox, error) { return nil, r.note() }

func (r *countingRuntime) StopContainer(context.Context, string, time.Duration) error {
	return r.note()
}

func (r *countingRuntime) RemoveContainer(context.Context, string) error { return r.note() }

func (r *countingRuntime) StopSandbox(context.Context, string) error { return r.note() }

func (r *countingRuntime) RemoveSandbox(context.Context, string) error { return r.note() }

func (r *countingRuntime) RemoveImage(context.Context, string) error { return r.note() }

func (r *countingRuntime) Images(context.Context) ([]cri.Image, error) { return nil, nil }

func (r *countingRuntime) ContainerStatus(context.Context, string) (cri.ContainerStatus, error) {
	return cri.ContainerStatus{}, nil
}

// The file is checked right before each removal.
func TestGuardedRuntime_RemovesNothingWhileDisarmed(t *testing.T) {
	file := disarmfile.File(filepath.Join(t.TempDir(), "disarm"))
	inner := &countingRuntime{}
	g := guardedRuntime{inner, newTestState(file, false)}
	acts := []func() error{
		func() error { _, err := g.Sandboxes(t.Context()); return err },
		func() error { return g.StopContainer(t.Context(), "c", 0) },
		func() error { return g.RemoveContainer(t.Context(), "c") },
		func() error { return g.StopSandbox(t.Context(), "s") },
		func() error { return g.RemoveSandbox(t.Context(), "s") },
		func() error { return g.RemoveImage(t.Context(), "i") },
	}
	for i, act := range acts {
		if err := act(); err != nil || inner.removed != i+1 {
			t.Errorf("armed: %v, %d calls", err, inner.removed)
		}
	}
	if err := file.Create("created by the test"); err != nil {
		t.Fatal(err)
	}
	for _, act := range acts {
		if err := act(); !errors.Is(err, agent.ErrDisarmed) {
			t.Errorf("disarmed: %v", err)
		}
	}
	if inner.removed != len(acts) {
		t.Errorf("%d calls, %d of them while disarmed", inner.removed, inner.removed-len(acts))
	}
	v := &victim{mayAct: g.arming.mayAct, killer: &kill.Killer{}} // a kill by this zero Killer panics
	if ended, err := v.Kill(t.Context()); !errors.Is(err, agent.ErrDisarmed) || ended != (evict.Ended{}) {
		t.Errorf("%+v, %v", ended, err)
	}
	if _, err := v.End(t.Context(), time.Second, nil); !errors.Is(err, agent.ErrDisarmed) {
		t.Errorf("%v", err)
	}
}

// The kubelet is detected once a minute. A setting is effective at once.
func TestGarbageCollector_StopsWhenDisarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.NewAgent()
		c.GarbageCollection = "on"
		log := slog.New(slog.DiscardHandler)
		collecting := &garbageCollector{arming: stateWithoutFile(false), kubelet: &kubeletDetector{config: c, log: log}, log: log}
		begun := time.Now()
		time.AfterFunc(time.Second, func() {
			collecting.arming.update(func(w *arming.Inputs) { w.Read(arming.Source{Setting: "disarmed"}, arming.Source{}) })
		})
		if !collecting.awaitEnabled(t.Context(), true) || time.Since(begun) > 0 {
			t.Errorf("enabled after %s, want at once", time.Since(begun))
		}
		if !collecting.awaitEnabled(t.Context(), false) || time.Since(begun) != time.Second {
			t.Errorf("disabled after %s, want 1s", time.Since(begun))
		}
	})
}

// A runtimeWithSandboxes has two images without a container. One is the image of its
// sandboxes: by its configuration, by the sandboxes, or unknown.
type runtimeWithSandboxes struct {
	*countingRuntime
	configured string
	sandboxes  map[string]string
	fault      error
	asked      int
	gone       []string
}

func (p *runtimeWithSandboxes) SandboxImage(context.Context) (string, error) {
	return p.configured, p.fault
}

func (p *runtimeWithSandboxes) ImageOfSandbox(_ context.Context, id string) (string, error) {
	p.asked++
	return p.sandboxes[id], nil
}

func (p *runtimeWithSandboxes) Sandboxes(context.Context) (all []cri.Sandbox, err error) {
	for id := range p.sandboxes {
		all = append(all, cri.Sandbox{ID: id, UID: "u", Ready: true})
	}
	return all, nil
}

func (p *runtimeWithSandboxes) Containers(context.Context) ([]cri.Container, error) { return nil, nil }

func (p *runtimeWithSandboxes) Images(context.Context) ([]cri.Image, error) {
	all := []cri.Image{{ID: "sha256:pause", Tags: []string{"registry.k8s.io/pause:3.10"}}, {ID: "sha256:old", Tags: []string{"example.com/old:1"}}}
	return slices.DeleteFunc(all, func(i cri.Image) bool { return slices.Contains(p.gone, i.ID) }), nil
}

func (p *runtimeWithSandboxes) RemoveImage(_ context.Context, id string) error {
	p.gone = append(p.gone, id)
	return nil
}

type discardReporter struct{}

func (discardReporter) Event(string, string) {}

func (discardReporter) Collected(string, int) {}

func (discardReporter) Freed(signals.Garbage, int64) {}

func TestCollector_KeepsImageOfSandboxes(t *testing.T) {
	for name, c := range map[string]struct {
		runtime *runtimeWithSandboxes
		gone    []string
	}{
		"image from configuration": {&runtimeWithSandboxes{configured: "registry.k8s.io/pause:3.10"}, []string{"sha256:old"}},
		"image from sandbox":       {&runtimeWithSandboxes{sandboxes: map[string]string{"a": "sha256:pause", "b": ""}}, []string{"sha256:old"}},
		"no answer":                {&runtimeWithSandboxes{fault: errors.New("no answer")}, nil},
		"image unknown":            {&runtimeWithSandboxes{}, []string{"sha256:old", "sha256:pause"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.runtime.countingRuntime = &countingRuntime{}
			conf := config.NewAgent()
			conf.ImageMinimumGCAge = 0
			n := &node{disks: stats.OpenDisks(stats.DiskOptions{HostRoot: "/", NodeDirectory: "/"})}
			images := &sandboxImages{source: c.runtime}
			collector := newCollector(conf, n, c.runtime, images, noOwners{}, discardReporter{}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 2 {
				collector.Free(ctx, []signals.Garbage{signals.UnusedImages}, func() bool { return false })
			}
			if slices.Sort(c.runtime.gone); !slices.Equal(c.runtime.gone, c.gone) {
				t.Errorf("removed %v, want %v", c.runtime.gone, c.gone)
			}
			if c.runtime.asked > len(c.runtime.sandboxes) {
				t.Errorf("%d sandboxes were queried %d times", len(c.runtime.sandboxes), c.runtime.asked)
			}
		})
	}
}
