package cri

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kinds of failed calls. Every such error of this package matches its kind by errors.Is. A call
// with a cancelled context returns [context.Canceled].
var (
	// ErrNotFound: the runtime has no such container, sandbox or image.
	ErrNotFound = errors.New("the container runtime has no such thing")
	// ErrUnavailable: the endpoint does not respond, or the connection broke.
	ErrUnavailable = errors.New("the container runtime can not be reached")
	// ErrTimeout: no response by the deadline. The request may still succeed.
	ErrTimeout = fmt.Errorf("the container runtime has not answered in time: %w", context.DeadlineExceeded)
	// ErrUnimplemented: this version of the runtime does not have the call.
	ErrUnimplemented = errors.New("the container runtime does not implement the call")
	// ErrImplausible: the response is implausible.
	ErrImplausible = errors.New("the container runtime's answer can not be right")
)

var meanings = map[codes.Code]error{
	codes.NotFound:         ErrNotFound,
	codes.Unavailable:      ErrUnavailable,
	codes.DeadlineExceeded: ErrTimeout,
	codes.Unimplemented:    ErrUnimplemented,
	codes.Canceled:         context.Canceled,
}

// explain adds the call, the endpoint and the kind of the failure.
func (c *Client) explain(call string, err error) error {
	s := status.Convert(err)
	where := fmt.Sprintf("%s at %s", call, c.endpoint)
	meaning, known := meanings[s.Code()]
	switch {
	case !known:
		return fmt.Errorf("%s: %s (%s)", where, s.Message(), s.Code())
	case meaning == ErrUnavailable:
		return fmt.Errorf("%s: %w: %s; see whether it runs, and %s", where, meaning, s.Message(), flag)
	}
	return fmt.Errorf("%s: %w: %s", where, meaning, s.Message())
}

// absurd returns the error for an implausible field in the response to a call.
func absurd(call, field string) error {
	return fmt.Errorf("%s: %w: %s", call, ErrImplausible, field)
}
