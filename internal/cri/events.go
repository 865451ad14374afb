package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Events hands over what happens to containers, in its order, until ctx ends;
// then it returns nil. A stream that breaks is made again with a back-off. What
// happened in between is lost: an event of kind [Reconnected] says so, and
// whoever needs to know lists anew. It stands for the first connection too, so
// that what is listed then misses nothing.
//
// The one error is [ErrUnimplemented]: whoever gets it polls. handle is called
// on the goroutine of the caller; while it runs, events wait in the runtime,
// which may drop them.
func (c *Client) Events(ctx context.Context, handle func(Event)) error {
	pause := time.Duration(0)
	for {
		heard, err := c.stream(ctx, handle)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrUnimplemented):
			return err
		}
		if heard {
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

// nextPause is how long to wait before the next try.
func nextPause(last time.Duration) time.Duration {
	if last == 0 {
		return firstPause
	}
	return min(time.Duration(float64(last)*widening), lastPause)
}

// stream waits for the runtime and hands over events until something breaks.
func (c *Client) stream(ctx context.Context, handle func(Event)) (heard bool, err error) {
	const call = "stream events of containers"
	ctx, cancel := context.WithCancel(ctx) // the stream ends with this function
	defer cancel()
	events, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return false, c.explain(call, err)
	}
	handle(Event{Kind: Reconnected, At: time.Now()})
	for {
		m, err := events.Recv()
		if err != nil {
			return heard, c.explain(call, err)
		}
		heard = true
		if e := event(m); e.ContainerID != "" {
			handle(e)
		}
	}
}
