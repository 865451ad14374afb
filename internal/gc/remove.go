package gc

import (
	"context"
	"fmt"

	"plimsoll.dev/plimsoll/internal/cri"
)

// removeContainer removes a dead container, unless it was only created and has started since.
func (c *Collector) removeContainer(ctx context.Context, k *cri.Container) (removed bool, err error) {
	if k.State == cri.Created {
		runs, err := c.runs(ctx, k.ID)
		if runs || err != nil {
			return false, err
		}
	}
	return c.endContainer(ctx, k)
}

// endContainer removes a container; a possibly running one is killed first.
func (c *Collector) endContainer(ctx context.Context, k *cri.Container) (removed bool, err error) {
	if k.State == cri.UnknownState || k.State == cri.Running {
		if err := c.do(ctx, c.killContainer, k.ID); err != nil {
			return false, fmt.Errorf("stop container %s, which is %s, before it is removed: %w", called(k), k.State, err)
		}
	}
	if err := c.do(ctx, c.runtime.RemoveContainer, k.ID); err != nil {
		return false, fmt.Errorf("remove container %s: %w", called(k), err)
	}
	c.log.Info("Removed container", "container", k.ID, "name", k.Name, "namespace", k.PodNamespace, "pod", k.PodName, "state", k.State.String())
	return true, nil
}

func called(k *cri.Container) string {
	return fmt.Sprintf("%s (%s/%s %s)", k.ID, k.PodNamespace, k.PodName, k.Name)
}

func (c *Collector) killContainer(ctx context.Context, id string) error {
	return c.runtime.StopContainer(ctx, id, 0)
}

func (c *Collector) runs(ctx context.Context, id string) (bool, error) {
	var state cri.State
	err := c.do(ctx, func(ctx context.Context, id string) error {
		status, err := c.runtime.ContainerStatus(ctx, id)
		state = status.State
		return err
	}, id)
	if err != nil {
		return false, fmt.Errorf("see whether container %s has started: %w", id, err)
	}
	return state == cri.Running, nil
}

func (c *Collector) removeSandbox(ctx context.Context, s *cri.Sandbox) (removed bool, err error) {
	err = c.do(ctx, c.runtime.StopSandbox, s.ID) // its network and mounts may remain
	if err == nil {
		err = c.do(ctx, c.runtime.RemoveSandbox, s.ID)
	}
	if err != nil {
		return false, fmt.Errorf("remove sandbox %s of pod %s/%s: %w", s.ID, s.Namespace, s.Name, err)
	}
	c.log.Info("Removed sandbox", "sandbox", s.ID, "namespace", s.Namespace, "pod", s.Name)
	return true, nil
}

// removeImage removes an image unless a container uses it by now.
func (c *Collector) removeImage(ctx context.Context, img *cri.Image) (removed bool, err error) {
	used, err := c.used(ctx)
	if err != nil {
		return false, fmt.Errorf("see whether image %s is still unused: %w", img.ID, err)
	}
	if used.contains(img) {
		return false, nil
	}
	if err := c.do(ctx, c.runtime.RemoveImage, img.ID); err != nil {
		return false, fmt.Errorf("remove unused image %s %v: %w", img.ID, img.Tags, err)
	}
	delete(c.seen, img.ID)
	c.log.Info("Removed unused image", "image", img.ID, "tags", img.Tags, "size", img.Size)
	return true, nil
}
