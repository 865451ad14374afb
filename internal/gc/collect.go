package gc

import (
	"context"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// never is the condition of a round that collects all garbage.
func never(context.Context) (bool, error) { return false, nil }

// collectDead removes dead containers, then sandboxes without containers, then logs of removed
// pods, until enough space is available. A failed removal does not prevent the others.
func (s *sweep) collectDead(ctx context.Context, pressed bool) (containers, sandboxes int, enough bool, err error) {
	var f faults
	containers, enough, err = s.collectContainers(ctx, pressed, &f)
	if !enough && err == nil {
		sandboxes, enough, err = s.collectSandboxes(ctx, pressed, &f)
	}
	if !enough && err == nil {
		err = s.c.removePodLogs(ctx, &f)
	}
	f.add(err)
	return containers, sandboxes, enough, f.err()
}

func (s *sweep) collectContainers(ctx context.Context, pressed bool, f *faults) (removed int, enough bool, err error) {
	c := s.c
	all, err := ask(ctx, c, c.runtime.Containers)
	if err != nil {
		return 0, false, fmt.Errorf("look for dead containers: %w", err)
	}
	dead := deadContainers(all, c.states(), &c.options, time.Now(), pressed)
	return each(ctx, s, dead, f, func(k *cri.Container) (bool, error) { return c.removeContainer(ctx, k) })
}

func (s *sweep) collectSandboxes(ctx context.Context, pressed bool, f *faults) (removed int, enough bool, err error) {
	c := s.c
	all, containers, err := c.listed(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("look for sandboxes without containers: %w", err)
	}
	dead := deadSandboxes(all, containers, c.states(), pressed)
	return each(ctx, s, dead, f, func(b *cri.Sandbox) (bool, error) { return c.removeSandbox(ctx, b) })
}

// listed lists containers after sandboxes, so that no sandbox in use appears empty.
func (c *Collector) listed(ctx context.Context) ([]cri.Sandbox, []cri.Container, error) {
	sandboxes, err := ask(ctx, c, c.runtime.Sandboxes)
	if err != nil {
		return nil, nil, err
	}
	containers, err := ask(ctx, c, c.runtime.Containers)
	return sandboxes, containers, err
}

// collectImages removes images in their order. After each it waits until the measured space has
// grown.
func (s *sweep) collectImages(ctx context.Context, unused []cri.Image) (removed int, enough bool, err error) {
	var f faults
	removed, enough, err = each(ctx, s, unused, &f, func(img *cri.Image) (bool, error) {
		before, _, err := s.c.measure(ctx)
		if err != nil {
			return false, err
		}
		gone, err := s.c.removeImage(ctx, img)
		if gone && img.Size >= 2*noise {
			err = s.settle(ctx, before, img.Size)
		}
		return gone, err
	})
	f.add(err)
	return removed, enough, f.err()
}

// each removes things in sequence until enough space is available. It returns an error after which
// further calls are useless; others are added to f.
func each[T any](ctx context.Context, s *sweep, things []T, f *faults, remove func(*T) (bool, error)) (removed int, enough bool, err error) {
	for i := range things {
		if enough, err := s.enough(ctx); enough || err != nil {
			return removed, enough, err
		}
		gone, err := remove(&things[i])
		if gone {
			removed++
		}
		if err != nil && ends(ctx, err) {
			return removed, false, err
		}
		f.add(err)
	}
	enough, err = s.enough(ctx)
	return removed, enough, err
}
