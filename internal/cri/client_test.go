package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestClient_ClassifiesErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want error
		text string
	}{
		"not found":        {status.Error(codes.NotFound, "no container x"), ErrNotFound, "no container x"},
		"unavailable":      {status.Error(codes.Unavailable, "shutting down"), ErrUnavailable, "--container-runtime-endpoint"},
		"timeout":          {status.Error(codes.DeadlineExceeded, "task is slow"), ErrTimeout, "task is slow"},
		"context deadline": {status.Error(codes.DeadlineExceeded, "task is slow"), context.DeadlineExceeded, "task is slow"},
		"unimplemented":    {status.Error(codes.Unimplemented, "unknown method"), ErrUnimplemented, "unknown method"},
		"other":            {status.Error(codes.Internal, "snapshot is broken"), nil, "snapshot is broken (Internal)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{containers: func(context.Context) (*runtimeapi.ListContainersResponse, error) { return nil, tc.err }}
			c := f.open(t)
			got, err := c.Containers(t.Context())
			if err == nil || got != nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("got %v, error %v, want error %v", got, err, tc.want)
			}
			for _, part := range []string{"list containers at " + c.Endpoint(), tc.text} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
			for _, other := range []error{ErrNotFound, ErrUnavailable, ErrTimeout, ErrUnimplemented, ErrImplausible} {
				if errors.Is(err, other) && other != tc.want && !errors.Is(other, tc.want) {
					t.Errorf("error %q also matches %q", err, other)
				}
			}
		})
	}
}

func TestClient_UnavailableWithoutRuntime(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	c := openAt(t, Options{Endpoint: socket, Timeout: patience})
	if _, err := c.Version(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a runtime: got error %v, want ErrUnavailable", err)
	}
}

// Calls succeed again after an absence of the runtime, on the same client.
func TestClient_ReconnectsAfterRestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	f := &fake{containers: func(context.Context) (*runtimeapi.ListContainersResponse, error) {
		return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "a", PodSandboxId: "s"}}}, nil
	}}
	c := openAt(t, Options{Endpoint: socket, Timeout: patience})
	for range 3 {
		stop := f.serve(t, socket)
		if err := eventually(t, func() error { _, err := c.Containers(t.Context()); return err }); err != nil {
			t.Fatalf("runtime running: %v", err)
		}
		stop()
		if _, err := c.Containers(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("runtime stopped: got error %v, want ErrUnavailable", err)
		}
	}
}

// eventually retries every 10 ms until success. It returns the last error after
// the constant patience.
func eventually(t *testing.T, try func() error) error {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for {
		err := try()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

func TestClient_TimesOut(t *testing.T) {
	f := &fake{containers: hang[runtimeapi.ListContainersResponse]}
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	f.serve(t, socket)
	impatient := openAt(t, Options{Endpoint: socket, Timeout: 20 * time.Millisecond})
	if _, err := impatient.Containers(t.Context()); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the client's timeout: got error %v, want ErrTimeout", err)
	}
	patient := openAt(t, Options{Endpoint: socket, Timeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := patient.Containers(ctx); !errors.Is(err, ErrTimeout) {
		t.Errorf("after the caller's deadline: got error %v, want ErrTimeout", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := patient.Containers(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrTimeout) {
		t.Errorf("cancelled: got error %v, want context.Canceled only", err)
	}
}

func TestStopContainer_AddsGracePeriodToTimeout(t *testing.T) {
	var asked *runtimeapi.StopContainerRequest
	var left time.Duration
	f := &fake{stop: func(ctx context.Context, q *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
		asked = q
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return &runtimeapi.StopContainerResponse{}, nil
	}}
	c := f.open(t)
	for grace, seconds := range map[time.Duration]int64{
		-time.Second: 0, 0: 0, 1: 1, time.Second: 1, 1500 * time.Millisecond: 2, time.Hour: 3600, math.MaxInt64: 9223372037,
	} {
		if err := c.StopContainer(t.Context(), "x", grace); err != nil {
			t.Fatal(err)
		}
		if asked.GetContainerId() != "x" || asked.GetTimeout() != seconds {
			t.Errorf("grace period %v: got %d seconds, want %d", grace, asked.GetTimeout(), seconds)
		}
		if minTime := max(grace, 0); left < minTime-time.Second || grace < time.Hour*24 && left > minTime+patience {
			t.Errorf("grace period %v: the call has a deadline in %v", grace, left)
		}
	}
}

// The response of an old runtime with 40,000 containers, 15 MB, is within the bound.
func TestContainers_AcceptsLargeResponse(t *testing.T) {
	f := &fake{containers: func(context.Context) (*runtimeapi.ListContainersResponse, error) {
		a := &runtimeapi.ListContainersResponse{}
		for i := range 40_000 {
			a.Containers = append(a.Containers, &runtimeapi.Container{
				Id: fmt.Sprintf("%064d", i), PodSandboxId: fmt.Sprintf("%064d", i), ImageRef: strings.Repeat("r", 240),
			})
		}
		return a, nil
	}}
	if got, err := f.open(t).Containers(t.Context()); err != nil || len(got) != 40_000 {
		t.Errorf("got %d containers, error %v, want 40000", len(got), err)
	}
}

func TestOpen_RejectsInvalidOptions(t *testing.T) {
	for _, o := range []Options{{}, {Endpoint: "tcp://127.0.0.1:1"}, {Endpoint: "/run/x.sock", Timeout: -1}} {
		if c, err := Open(o); err == nil {
			t.Errorf("%+v: got no error", o)
			_ = c.Close()
		}
	}
}

// The path of a socket is not parsed as a URL.
func TestOpen_AcceptsSpecialCharactersInPath(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "50%25?#é .sock")
	(&fake{images: func(context.Context) (*runtimeapi.ListImagesResponse, error) {
		return &runtimeapi.ListImagesResponse{}, nil
	}}).serve(t, socket)
	if _, err := openAt(t, Options{Endpoint: socket, Timeout: patience}).Images(t.Context()); err != nil {
		t.Error(err)
	}
}
