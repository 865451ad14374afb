package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandboxes lists all sandboxes, also those that have stopped.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	const call = "list sandboxes"
	a, err := ask(ctx, c, call, c.runtime.ListPodSandbox, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetItems(), sandbox)
}

// Containers lists all containers, also those that have ended.
func (c *Client) Containers(ctx context.Context) ([]Container, error) {
	const call = "list containers"
	a, err := ask(ctx, c, call, c.runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetContainers(), container)
}

// Images lists all images.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	const call = "list images"
	a, err := ask(ctx, c, call, c.images.ListImages, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(call, a.GetImages(), image)
}

// ImageFilesystems tells where the runtime keeps images and where writable
// layers. containers is empty where a runtime does not tell them apart.
func (c *Client) ImageFilesystems(ctx context.Context) (images, containers []Filesystem, err error) {
	const call = "ask for the filesystems of images"
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

// ContainerStatus tells about one container what the list does not: where its
// log is, what is mounted, how it ended. [ErrNotFound] if there is none.
func (c *Client) ContainerStatus(ctx context.Context, id string) (ContainerStatus, error) {
	call := "ask for the status of container " + id
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

// PodStats tells what every pod uses that has a running sandbox. What the
// runtime tells of no pod is left out: then there is an [ErrAbsurd], and what
// could be told apart is returned with it.
func (c *Client) PodStats(ctx context.Context) ([]PodStats, error) {
	const call = "ask for the stats of pods"
	a, err := ask(ctx, c, call, c.runtime.ListPodSandboxStats, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil {
		return nil, err
	}
	return convertSome(call, a.GetStats(), podStats)
}

// ContainerStats tells what every container uses. What the runtime tells of no
// container is left out, with an [ErrAbsurd], as by [Client.PodStats].
func (c *Client) ContainerStats(ctx context.Context) ([]ContainerStats, error) {
	const call = "ask for the stats of containers"
	a, err := ask(ctx, c, call, c.runtime.ListContainerStats, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	return convertSome(call, a.GetStats(), containerStats)
}

// convertAll converts a list that is acted upon: with one faulty entry none of
// it is believed.
func convertAll[M any, V any](call string, messages []*M, convert func(*M) (V, string)) ([]V, error) {
	values, err := convertSome(call, messages, convert)
	if err != nil {
		return nil, err
	}
	return values, nil
}

// convertSome converts what can be converted. The error names the first fault.
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
