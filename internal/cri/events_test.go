package cri

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type stream = grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]

// listen returns the events of the client until the test ends.
func listen(t *testing.T, c *Client) (events <-chan Event, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan Event), make(chan error, 1)
	go func() {
		done <- c.Events(ctx, func(e Event) {
			select {
			case out <- e:
			case <-ctx.Done():
			}
		})
	}()
	ended := false
	var err error
	end = func() error {
		cancel()
		if !ended {
			ended, err = true, <-done
		}
		return err
	}
	t.Cleanup(func() { _ = end() })
	return out, end
}

func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
		return Event{}
	}
}

func TestEvents_ResumesAfterRestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "runtime.sock")
	f := &fake{events: func(s stream) error {
		for _, kind := range []runtimeapi.ContainerEventType{0, 1, 2, 3, 99} {
			err := s.Send(&runtimeapi.ContainerEventResponse{
				ContainerId: "c", ContainerEventType: kind, CreatedAt: 1e9,
				PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}},
			})
			if err != nil {
				return err
			}
		}
		if err := s.Send(&runtimeapi.ContainerEventResponse{}); err != nil { // without a container ID: dropped
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}}
	c := openAt(t, Options{Endpoint: socket})
	events, end := listen(t, c) // no runtime yet
	for range 3 {
		stop := f.serve(t, socket)
		var kinds []EventKind
		for range 6 {
			e := next(t, events)
			kinds = append(kinds, e.Kind)
			if e.Kind != Reconnected && (e.ContainerID != "c" || e.PodUID != "u" || !e.At.Equal(time.Unix(1, 0))) {
				t.Errorf("%+v", e)
			}
		}
		if want := []EventKind{Reconnected, ContainerCreated, ContainerStarted, ContainerStopped, ContainerDeleted, OtherEvent}; !slices.Equal(kinds, want) {
			t.Errorf("got events %v, want %v", kinds, want)
		}
		stop()
	}
	if err := end(); err != nil {
		t.Errorf("Events returned error %v after its context ended", err)
	}
}

func TestEvents_ReturnsErrUnimplemented(t *testing.T) {
	if err := (&fake{}).open(t).Events(t.Context(), func(Event) {}); !errors.Is(err, ErrUnimplemented) {
		t.Errorf("got error %v, want ErrUnimplemented", err)
	}
}

// A stream that breaks immediately is opened again only after a backoff.
func TestEvents_BacksOffBetweenAttempts(t *testing.T) {
	tries := make(chan time.Time)
	f := &fake{events: func(s stream) error {
		select {
		case tries <- time.Now():
		case <-s.Context().Done():
		}
		return errors.New("not now")
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c := f.open(t)
	go func() { done <- c.Events(ctx, func(Event) {}) }()
	last := <-tries
	for pause := firstPause; pause < 300*time.Millisecond; pause = nextPause(pause) {
		now := <-tries
		if now.Sub(last) < pause-10*time.Millisecond {
			t.Errorf("got a retry after %v, want at least %v", now.Sub(last), pause)
		}
		last = now
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNextPause_GrowsToMaximum(t *testing.T) {
	pause, sum := time.Duration(0), time.Duration(0)
	for range 20 {
		longer := nextPause(pause)
		if longer < pause || longer < firstPause || longer > lastPause {
			t.Fatalf("got a pause of %v after %v", longer, pause)
		}
		pause = longer
		sum += pause
	}
	if pause != lastPause || sum < time.Minute {
		t.Errorf("last pause %v, want %v; sum %v, want at least 1m", pause, lastPause, sum)
	}
}
