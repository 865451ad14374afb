package cri

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fake is a runtime with functions set by the test. A nil function returns Unimplemented.
type fake struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	containers func(context.Context) (*runtimeapi.ListContainersResponse, error)
	podStats   func(context.Context) (*runtimeapi.ListPodSandboxStatsResponse, error)
	images     func(context.Context) (*runtimeapi.ListImagesResponse, error)
	stop       func(context.Context, *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error)
	status     func(string) (*runtimeapi.ContainerStatusResponse, error)
	info       func(sandbox string) map[string]string // of a verbose status; empty: of the runtime
	events     func(grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error
}

func (f *fake) ListContainers(ctx context.Context, q *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	if f.containers == nil {
		return f.UnimplementedRuntimeServiceServer.ListContainers(ctx, q)
	}
	return f.containers(ctx)
}

func (f *fake) ListPodSandboxStats(ctx context.Context, q *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	if f.podStats == nil {
		return f.UnimplementedRuntimeServiceServer.ListPodSandboxStats(ctx, q)
	}
	return f.podStats(ctx)
}

func (f *fake) ListImages(ctx context.Context, q *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	if f.images == nil {
		return f.UnimplementedImageServiceServer.ListImages(ctx, q)
	}
	return f.images(ctx)
}

func (f *fake) StopContainer(ctx context.Context, q *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	if f.stop == nil {
		return f.UnimplementedRuntimeServiceServer.StopContainer(ctx, q)
	}
	return f.stop(ctx, q)
}

func (f *fake) ContainerStatus(ctx context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if f.status == nil {
		return f.UnimplementedRuntimeServiceServer.ContainerStatus(ctx, q)
	}
	return f.status(q.GetContainerId())
}

func (f *fake) Status(ctx context.Context, q *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	if f.info == nil || !q.GetVerbose() {
		return f.UnimplementedRuntimeServiceServer.Status(ctx, q)
	}
	return &runtimeapi.StatusResponse{Info: f.info("")}, nil
}

func (f *fake) PodSandboxStatus(ctx context.Context, q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	if f.info == nil || !q.GetVerbose() {
		return f.UnimplementedRuntimeServiceServer.PodSandboxStatus(ctx, q)
	}
	return &runtimeapi.PodSandboxStatusResponse{Info: f.info(q.GetPodSandboxId())}, nil
}

func (f *fake) GetContainerEvents(q *runtimeapi.GetEventsRequest, s grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if f.events == nil {
		return f.UnimplementedRuntimeServiceServer.GetContainerEvents(q, s)
	}
	return f.events(s)
}

// serve starts the runtime at the socket; stop breaks its connections.
func (f *fake) serve(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	runtimeapi.RegisterImageServiceServer(server, f)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// patience bounds the wait for an immediate result.
const patience = time.Minute

// open starts the runtime and returns a client of it.
func (f *fake) open(t *testing.T) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	f.serve(t, socket)
	return openAt(t, Options{Endpoint: socket, Timeout: patience})
}

func openAt(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// hang responds after the caller's context has ended.
func hang[A any](ctx context.Context) (*A, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
