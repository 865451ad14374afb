package cri

import (
	"context"
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopContainer stops a container, and kills it after the grace period, which is rounded up to
// seconds; 0 kills at once. It returns after the end of the container, at the latest after the
// grace period and the timeout. A container that has ended already is no error. Returns
// ErrNotFound, with some runtimes, if the container does not exist.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	within := c.timeout + min(max(grace, 0), math.MaxInt64-c.timeout)
	_, err := askWithin(ctx, c, within, "stop container "+id, c.runtime.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)})
	return err
}

// RemoveContainer removes a container with its writable layer. The runtime kills a running one: the
// caller must exclude that. Returns ErrNotFound, with some runtimes, if the container does not
// exist.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove container "+id, c.runtime.RemoveContainer, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

// StopSandbox stops a sandbox and its containers at once. A stopped one is no error. Returns an
// error if the call fails.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "stop sandbox "+id, c.runtime.StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

// RemoveSandbox removes a sandbox with its containers. Returns an error if the call fails; some
// runtimes refuse if the sandbox was not stopped.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove sandbox "+id, c.runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// RemoveImage removes an image with all its names. containerd removes it even while a container
// uses it, and may free the space after its response. With most runtimes a missing image is no
// error. Returns an error if the call fails.
func (c *Client) RemoveImage(ctx context.Context, id string) error {
	_, err := ask(ctx, c, "remove image "+id, c.images.RemoveImage, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}})
	return err
}
