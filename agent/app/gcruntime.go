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

// A guardedRuntime removes nothing for an agent that may not act. What is asked
// for at the start of each round is refused, too, so that the round ends there.
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

// unless does something that can not be undone, unless the agent is disarmed.
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

// sandboxImages are those of which sandboxes are made. No container names them, so
// that they look unused. Not every runtime pins them.
type sandboxImages struct {
	source imageSource

	mu    sync.Mutex
	names []string
	of    map[string]string // by the sandbox's ID, as long as the configuration has none
}

// refresh asks which image new sandboxes are made of. Where the runtime does not report it,
// the images of the sandboxes there are count; each is asked about once.
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

// keep implements reclaim.Options.
func (s *sandboxImages) keep() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// A keepingRuntime lists images only once it is known which of them sandboxes are
// made of: until then none is collected.
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
