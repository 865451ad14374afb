package cri

import (
	"context"
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopContainer asks a container to end, and kills it after the grace period,
// which is rounded up to seconds; 0 kills at once. It returns when the container
// has ended, and waits for the grace period besides the timeout. A container that
// has ended already is no error; one that is gone may be [ErrNotFound].
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	within := c.timeout + min(max(grace, 0), math.MaxInt64-c.timeout)
	_, err := askWithin(ctx, c, within, "stop container "+id, c.runtime.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)})
	return err
}

// RemoveContainer removes a container with its writable layer. One that runs is
// killed by the runtime: see to it that it does not. One that is gone may be
// [ErrNotFound].
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove container "+id, c.runtime.RemoveContainer, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

// StopSandbox ends a sandbox and what runs in it, at once. One that has stopped
// already is no error.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "stop sandbox "+id, c.runtime.StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

// RemoveSandbox removes a sandbox with its containers. Some runtimes refuse if
// it has not been stopped.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove sandbox "+id, c.runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// RemoveImage removes an image with all its names. containerd does so though a
// container uses it, and may free the space later than it answers. An image that
// is gone is no error with most runtimes.
func (c *Client) RemoveImage(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove image "+id, c.images.RemoveImage, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	return err
}
