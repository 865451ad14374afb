package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/gc"
)

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
