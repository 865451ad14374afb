package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// has reports whether labels have all of a selector.
func has(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// ListPodSandbox implements the interface.
func (r *runtime) ListPodSandbox(_ context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, answer := q.GetFilter(), &runtimeapi.ListPodSandboxResponse{}
	for _, s := range r.sandboxes {
		if f.GetId() != "" && f.GetId() != s.id || f.GetState() != nil && f.GetState().GetState() != s.state() || !has(s.config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		answer.Items = append(answer.Items, &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(), Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		})
	}
	slices.SortFunc(answer.Items, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return answer, nil
}

// PodSandboxStatus implements the interface.
func (r *runtime) PodSandboxStatus(_ context.Context, q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := find(r.sandboxes, q.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	namespaces := s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created.UnixNano(), Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(),
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: namespaces}},
	}}, nil
}

// ListContainers implements the interface.
func (r *runtime) ListContainers(_ context.Context, q *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, answer := q.GetFilter(), &runtimeapi.ListContainersResponse{}
	for _, c := range r.containers {
		if err := r.look(c); err != nil {
			return nil, err
		}
		if f.GetId() != "" && f.GetId() != c.id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox ||
			f.GetState() != nil && f.GetState().GetState() != c.state() || !has(c.config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		answer.Containers = append(answer.Containers, &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(), ImageRef: imageID, ImageId: imageID,
			State: c.state(), CreatedAt: c.created.UnixNano(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	slices.SortFunc(answer.Containers, func(a, b *runtimeapi.Container) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return answer, nil
}

// ContainerStatus implements the interface.
func (r *runtime) ContainerStatus(_ context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, q.GetContainerId())
	if err == nil {
		err = r.look(c)
	}
	if err != nil {
		return nil, err
	}
	answer := &runtimeapi.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state(), CreatedAt: c.created.UnixNano(), Image: c.config.GetImage(), ImageRef: imageID, ImageId: imageID,
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), LogPath: c.config.GetLogPath(),
	}
	if !c.started.IsZero() {
		answer.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		answer.FinishedAt, answer.ExitCode, answer.Reason = c.finished.UnixNano(), killed, "Error"
	}
	return &runtimeapi.ContainerStatusResponse{Status: answer}, nil
}

// ListContainerStats implements the interface. A pod has one container.
func (r *runtime) ListContainerStats(_ context.Context, q *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, answer := q.GetFilter(), &runtimeapi.ListContainerStatsResponse{}
	for _, c := range r.containers {
		if err := r.look(c); err != nil {
			return nil, err
		}
		if c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING && (f.GetId() == "" || f.GetId() == c.id) &&
			(f.GetPodSandboxId() == "" || f.GetPodSandboxId() == c.sandbox) && has(c.config.GetLabels(), f.GetLabelSelector()) {
			answer.Stats = append(answer.Stats, r.stats(c))
		}
	}
	return answer, nil
}

// ContainerStats implements the interface.
func (r *runtime) ContainerStats(_ context.Context, q *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, q.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: r.stats(c)}, nil
}

func (r *runtime) stats(c *container) *runtimeapi.ContainerStats {
	now := time.Now().UnixNano()
	usage, workingSet := r.pods.memory(c.uid)
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations()},
		Cpu:        &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{}},
		Memory: &runtimeapi.MemoryUsage{
			Timestamp: now, UsageBytes: &runtimeapi.UInt64Value{Value: usage}, WorkingSetBytes: &runtimeapi.UInt64Value{Value: workingSet},
		},
	}
}
