package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandboxes lists all sandboxes, including stopped ones. Returns ErrImplausible if an entry is
// implausible.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	const call = "list sandboxes"
	a, err := ask(ctx, c, call, c.runtime.ListPodSandbox, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetItems(), sandbox)
}

// Containers lists all containers, including ended ones. Returns ErrImplausible if an entry is
// implausible.
func (c *Client) Containers(ctx context.Context) ([]Container, error) {
	const call = "list containers"
	a, err := ask(ctx, c, call, c.runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetContainers(), container)
}

// Images lists all images. Returns ErrImplausible if an entry is implausible.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	const call = "list images"
	a, err := ask(ctx, c, call, c.images.ListImages, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetImages(), image)
}

// ImageFilesystems returns the filesystems of images and of writable layers. containers is empty if
// the runtime does not distinguish them. Returns ErrImplausible if an entry is implausible.
func (c *Client) ImageFilesystems(ctx context.Context) (images, containers []Filesystem, err error) {
	const call = "read the filesystems of images"
	a, err := ask(ctx, c, call, c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nil, nil, err
	}
	if images, err = convertAll(call, a.GetImageFilesystems(), filesystem); err != nil {
		return nil, nil, err
	}
	if containers, err = convertAll(call, a.GetContainerFilesystems(), filesystem); err != nil {
		return nil, nil, err
	}
	return images, containers, nil
}

// ContainerStatus returns facts about one container that the list lacks: its log, its mounts, its
// end. Returns ErrNotFound if there is no such container.
func (c *Client) ContainerStatus(ctx context.Context, id string) (ContainerStatus, error) {
	call := "read the status of container " + id
	a, err := ask(ctx, c, call, c.runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return ContainerStatus{}, err
	}
	s, fault := containerStatus(a.GetStatus())
	if fault == "" && s.ID != id {
		fault = "another container's ID"
	}
	if fault != "" {
		return ContainerStatus{}, absurd(call, fault)
	}
	return s, nil
}

// PodStats returns the usage of every pod with a running sandbox. Returns ErrImplausible, together with
// the valid entries, if the runtime returns entries without a pod.
func (c *Client) PodStats(ctx context.Context) ([]PodStats, error) {
	const call = "read the stats of pods"
	a, err := ask(ctx, c, call, c.runtime.ListPodSandboxStats, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil {
		return nil, err
	}
	return convertSome(call, a.GetStats(), podStats)
}

// ContainerStats returns the usage of every container. Returns ErrImplausible, together with the valid
// entries, if the runtime returns entries without a container.
func (c *Client) ContainerStats(ctx context.Context) ([]ContainerStats, error) {
	const call = "read the stats of containers"
	a, err := ask(ctx, c, call, c.runtime.ListContainerStats, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	return convertSome(call, a.GetStats(), containerStats)
}

// convertAll converts a list that callers act upon: one faulty entry invalidates all of it.
func convertAll[M any, V any](call string, messages []*M, convert func(*M) (V, string)) ([]V, error) {
	values, err := convertSome(call, messages, convert)
	if err != nil {
		return nil, err
	}
	return values, nil
}

// convertSome converts the valid entries. The error names the first fault.
func convertSome[M any, V any](call string, messages []*M, convert func(*M) (V, string)) (values []V, err error) {
	values = make([]V, 0, len(messages))
	for _, m := range messages {
		v, fault := convert(m)
		if fault == "" {
			values = append(values, v)
		} else if err == nil {
			err = absurd(call, fault)
		}
	}
	return values, err
}
