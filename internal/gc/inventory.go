package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll.dev/plimsoll/internal/cri"
)

// listImages lists images, records which are in use, and returns those that may be removed, in
// order. It lists images before containers, so that an image pulled for a container meanwhile is not
// seen without it.
func (c *Collector) listImages(ctx context.Context) (unused []cri.Image, now time.Time, err error) {
	images, err := ask(ctx, c, c.runtime.Images)
	if err != nil {
		return nil, now, fmt.Errorf("look for unused images: %w", err)
	}
	used, err := c.used(ctx)
	if err != nil {
		return nil, now, fmt.Errorf("look for unused images: %w", err)
	}
	now = time.Now()
	c.seen.note(images, used, now)
	return unusedImages(images, used, c.seen, c.options.MinimumImageTTL, now), now, nil
}

// used returns the names of all images currently in use.
func (c *Collector) used(ctx context.Context) (names, error) {
	containers, err := ask(ctx, c, c.runtime.Containers)
	if err != nil {
		return nil, err
	}
	used := names{}
	if c.options.Keep != nil {
		used.add(c.options.Keep()...)
	}
	volumes := make(map[string][]string, len(containers))
	for i := range containers {
		k := &containers[i]
		mounted, known := c.volumes[k.ID]
		if !known {
			if mounted, err = c.imageVolumes(ctx, k.ID); err != nil {
				return nil, err
			}
		}
		volumes[k.ID] = mounted
		used.add(k.Image, k.ImageID)
		used.add(mounted...)
	}
	c.volumes = volumes
	return used, nil
}

// imageVolumes returns the images mounted in a container, which never change. It is called once for
// each container: 1 ms.
func (c *Collector) imageVolumes(ctx context.Context, id string) (images []string, err error) {
	status, err := ask(ctx, c, func(ctx context.Context) (cri.ContainerStatus, error) { return c.runtime.ContainerStatus(ctx, id) })
	if errors.Is(err, cri.ErrNotFound) {
		return nil, nil // gone meanwhile, together with its mounts
	}
	if err != nil {
		return nil, fmt.Errorf("see which images container %s mounts: %w", id, err)
	}
	for _, m := range status.Mounts {
		if m.Image != "" {
			images = append(images, m.Image)
		}
	}
	return images, nil
}
