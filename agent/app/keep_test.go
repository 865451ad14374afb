package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/stats"
)

// A pausing runtime has two images that no container names, of which sandboxes are
// made of one. Its configuration names it, its sandboxes do, or neither.
type pausing struct {
	*removing
	configured string
	sandboxes  map[string]string
	fault      error
	asked      int
	gone       []string
}

func (p *pausing) SandboxImage(context.Context) (string, error) { return p.configured, p.fault }
func (p *pausing) ImageOfSandbox(_ context.Context, id string) (string, error) {
	p.asked++
	return p.sandboxes[id], nil
}
func (p *pausing) Sandboxes(context.Context) (all []cri.Sandbox, err error) {
	for id := range p.sandboxes {
		all = append(all, cri.Sandbox{ID: id, UID: "u", Ready: true})
	}
	return all, nil
}
func (p *pausing) Containers(context.Context) ([]cri.Container, error) { return nil, nil }
func (p *pausing) Images(context.Context) ([]cri.Image, error) {
	all := []cri.Image{{ID: "sha256:pause", Tags: []string{"registry.k8s.io/pause:3.10"}}, {ID: "sha256:old", Tags: []string{"example.com/old:1"}}}
	return slices.DeleteFunc(all, func(i cri.Image) bool { return slices.Contains(p.gone, i.ID) }), nil
}
func (p *pausing) RemoveImage(_ context.Context, id string) error {
	p.gone = append(p.gone, id)
	return nil
}

type silent struct{}

func (silent) Event(string, string)           {}
func (silent) Collected(string, int)          {}
func (silent) Freed(signals.Reclaimer, int64) {}

func TestCollector_KeepsImageOfSandboxes(t *testing.T) {
	for name, c := range map[string]struct {
		runtime *pausing
		gone    []string
	}{
		"by the configuration": {&pausing{configured: "registry.k8s.io/pause:3.10"}, []string{"sha256:old"}},
		"by a sandbox":         {&pausing{sandboxes: map[string]string{"a": "sha256:pause", "b": ""}}, []string{"sha256:old"}},
		"no answer":            {&pausing{fault: errors.New("no answer")}, nil},
		"unknown":              {&pausing{}, []string{"sha256:old", "sha256:pause"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.runtime.removing = &removing{}
			conf := config.NewAgent()
			conf.ImageMinimumGCAge = 0
			n := &node{disks: stats.OpenDisks(stats.DiskOptions{HostRoot: "/", NodeDirectory: "/"})}
			images := &sandboxImages{source: c.runtime}
			collector := newCollector(conf, n, c.runtime, images, noOwners{}, silent{}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 2 {
				collector.Relieve(ctx, []signals.Reclaimer{signals.UnusedImages}, func() bool { return false })
			}
			if slices.Sort(c.runtime.gone); !slices.Equal(c.runtime.gone, c.gone) {
				t.Errorf("removed %v, want %v", c.runtime.gone, c.gone)
			}
			if c.runtime.asked > len(c.runtime.sandboxes) {
				t.Errorf("%d sandboxes were asked about %d times", len(c.runtime.sandboxes), c.runtime.asked)
			}
		})
	}
}
