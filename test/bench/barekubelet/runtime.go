package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtime is a container runtime for pods that run already. Methods of the interface that are absent are not
// implemented: the kubelet does without them.
type runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	pods *pods

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	made       int    // for identifiers
	awaited    int    // pods that are not started yet
	ready      func() // called once all are
}

type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	created time.Time
	ready   bool
}

type container struct {
	id, sandbox, uid           string
	config                     *runtimeapi.ContainerConfig
	created, started, finished time.Time
	seen                       bool // it had a process
}

func newRuntime(p *pods, awaited int, ready func()) *runtime {
	return &runtime{pods: p, sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, awaited: awaited, ready: ready}
}

// startTimeout is the time in which a started pod gets its first process.
const startTimeout = time.Minute

// killed is the exit status of a container: those of bare processes are unknown.
const killed = 137

// look updates the state of a container. The caller holds the lock.
func (r *runtime) look(c *container) error {
	if c.started.IsZero() || !c.finished.IsZero() {
		return nil
	}
	pids, err := r.pods.processes(c.uid)
	if err != nil {
		return err
	}
	c.seen = c.seen || len(pids) > 0
	if now := time.Now(); len(pids) == 0 && (c.seen || now.Sub(c.started) > startTimeout) {
		c.finished = now
	}
	return nil
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case !c.finished.IsZero():
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case !c.started.IsZero():
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// find returns what has an identifier. The caller holds the lock.
func find[T any](all map[string]*T, id string) (*T, error) {
	if x, found := all[id]; found {
		return x, nil
	}
	return nil, status.Errorf(codes.NotFound, "there is no %s", id)
}

func (r *runtime) newID(kind string) string {
	r.made++
	return fmt.Sprintf("%s-%06d", kind, r.made)
}

// RunPodSandbox implements the interface.
func (r *runtime) RunPodSandbox(_ context.Context, q *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &sandbox{id: r.newID("sandbox"), config: q.GetConfig(), created: time.Now(), ready: true}
	r.sandboxes[s.id] = s
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// CreateContainer implements the interface.
func (r *runtime) CreateContainer(_ context.Context, q *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := find(r.sandboxes, q.GetPodSandboxId())
	if err != nil {
		return nil, err
	}
	c := &container{id: r.newID("container"), sandbox: s.id, uid: s.config.GetMetadata().GetUid(), config: q.GetConfig(), created: time.Now()}
	r.containers[c.id] = c
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

// StartContainer implements the interface.
func (r *runtime) StartContainer(_ context.Context, q *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := find(r.containers, q.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.started = time.Now()
	if r.awaited--; r.awaited == 0 {
		r.ready()
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer implements the interface. It does not hold the lock while it waits.
func (r *runtime) StopContainer(_ context.Context, q *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	c, err := find(r.containers, q.GetContainerId())
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := r.pods.stop(c.uid, time.Duration(q.GetTimeout())*time.Second); err != nil {
		return nil, fmt.Errorf("stop the processes of pod %s: %w", c.uid, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.finished.IsZero() {
		c.finished = time.Now()
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// StopPodSandbox implements the interface.
func (r *runtime) StopPodSandbox(_ context.Context, q *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, found := r.sandboxes[q.GetPodSandboxId()]; found {
		s.ready = false
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox implements the interface.
func (r *runtime) RemovePodSandbox(_ context.Context, q *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, q.GetPodSandboxId())
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// RemoveContainer implements the interface.
func (r *runtime) RemoveContainer(_ context.Context, q *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, q.GetContainerId())
	return &runtimeapi.RemoveContainerResponse{}, nil
}
