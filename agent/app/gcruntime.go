package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
)

// A guardedRuntime removes nothing while the agent is disarmed. It also refuses the list of
// sandboxes, which begins each round, so that the round ends there.
type guardedRuntime struct {
	gc.Runtime
	arming *armingState
}

func (g guardedRuntime) Sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	if err := g.arming.mayAct(); err != nil {
		return nil, err
	}
	return g.Runtime.Sandboxes(ctx)
}

func (g guardedRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return g.guarded(func() error { return g.Runtime.StopContainer(ctx, id, grace) })
}

func (g guardedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return g.guarded(func() error { return g.Runtime.RemoveContainer(ctx, id) })
}

func (g guardedRuntime) StopSandbox(ctx context.Context, id string) error {
	return g.guarded(func() error { return g.Runtime.StopSandbox(ctx, id) })
}

func (g guardedRuntime) RemoveSandbox(ctx context.Context, id string) error {
	return g.guarded(func() error { return g.Runtime.RemoveSandbox(ctx, id) })
}

func (g guardedRuntime) RemoveImage(ctx context.Context, id string) error {
	return g.guarded(func() error { return g.Runtime.RemoveImage(ctx, id) })
}

// guarded calls do, which can not be undone. Returns agent.ErrDisarmed instead if the agent
// is disarmed.
func (g guardedRuntime) guarded(do func() error) error {
	if err := g.arming.mayAct(); err != nil {
		return err
	}
	return do()
}

// An imageSource reports the images of sandboxes, as a container runtime does.
type imageSource interface {
	Sandboxes(ctx context.Context) ([]cri.Sandbox, error)
	SandboxImage(ctx context.Context) (string, error)
	ImageOfSandbox(ctx context.Context, id string) (string, error)
}

// sandboxImages are the images of sandboxes. No container names them, so that they appear
// unused, and not every runtime pins them.
type sandboxImages struct {
	source imageSource

	mu    sync.Mutex
	names []string
	of    map[string]string // by the sandbox's ID, as long as the configuration has none
}

// refresh reads the image of new sandboxes. If the runtime does not report it, the images of
// the present sandboxes count; each is read once. Returns an error if the runtime fails.
func (s *sandboxImages) refresh(ctx context.Context) error {
	configured, err := s.source.SandboxImage(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := s.of
	s.mu.Unlock()
	if configured != "" {
		s.set([]string{configured}, nil)
		return nil
	}
	found, err := s.source.Sandboxes(ctx)
	if err != nil {
		return err
	}
	of := make(map[string]string, min(len(found), maxSandboxes))
	for i := range found[:min(len(found), maxSandboxes)] {
		id := found[i].ID
		image, asked := known[id]
		if !asked {
			if image, err = s.source.ImageOfSandbox(ctx, id); err != nil && !errors.Is(err, cri.ErrNotFound) {
				return err
			}
		}
		of[id] = image
	}
	s.set(slices.Compact(slices.Sorted(maps.Values(of))), of)
	return nil
}

func (s *sandboxImages) set(names []string, of map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.of = names, of
}

// keep returns the names of images that are not collected (gc.Options).
func (s *sandboxImages) keep() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// An imageKeepingRuntime lists images only once the images of sandboxes are known. Until
// then none is collected.
type imageKeepingRuntime struct {
	gc.Runtime
	images *sandboxImages
}

func (k imageKeepingRuntime) Images(ctx context.Context) ([]cri.Image, error) {
	if err := k.images.refresh(ctx); err != nil {
		return nil, err
	}
	return k.Runtime.Images(ctx)
}
