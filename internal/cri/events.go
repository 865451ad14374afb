package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events passes the events of containers to handle, in order, until ctx ends; then it returns nil.
// A broken stream is opened again with backoff. Events during the interruption are lost: an event
// of kind [Reconnected] reports that, and the caller may list anew. It also precedes the first
// events, so that a list made then misses nothing.
//
// Returns ErrUnimplemented, and no other error, if the runtime has no events: the caller has to
// poll. handle is called in the goroutine of the caller. While it runs, events wait in the runtime,
// which may drop them.
func (c *Client) Events(ctx context.Context, handle func(Event)) error {
	pause := time.Duration(0)
	for {
		received, err := c.stream(ctx, handle)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrUnimplemented):
			return err
		}
		if received {
			pause = 0
		}
		pause = nextPause(pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// nextPause returns the delay before the next attempt.
func nextPause(last time.Duration) time.Duration {
	if last == 0 {
		return firstPause
	}
	return min(time.Duration(float64(last)*widening), lastPause)
}

// stream waits for the runtime and passes events on until an error.
func (c *Client) stream(ctx context.Context, handle func(Event)) (received bool, err error) {
	const call = "stream events of containers"
	ctx, cancel := context.WithCancel(ctx) // closes the stream when this function returns
	defer cancel()
	events, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return false, c.explain(call, err)
	}
	handle(Event{Kind: Reconnected, At: time.Now()})
	for {
		m, err := events.Recv()
		if err != nil {
			return received, c.explain(call, err)
		}
		received = true
		if e := event(m); e.ContainerID != "" {
			handle(e)
		}
	}
}
