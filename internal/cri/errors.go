package cri

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a failed call means. Every error of this package that is of such a kind
// says so by errors.Is; a call whose context was cancelled is
// [context.Canceled].
var (
	// ErrNotFound: the runtime has no such container, sandbox or image.
	ErrNotFound = errors.New("the container runtime has no such thing")
	// ErrUnavailable: nobody answers at the endpoint, or the connection broke.
	ErrUnavailable = errors.New("the container runtime can not be reached")
	// ErrTimeout: no answer by the deadline. What was asked for may be done yet.
	ErrTimeout = fmt.Errorf("the container runtime has not answered in time: %w", context.DeadlineExceeded)
	// ErrUnimplemented: this version of the runtime does not know the call.
	ErrUnimplemented = errors.New("the container runtime does not implement the call")
	// ErrAbsurd: the answer can not be right.
	ErrAbsurd = errors.New("the container runtime's answer can not be right")
)

var meanings = map[codes.Code]error{
	codes.NotFound:         ErrNotFound,
	codes.Unavailable:      ErrUnavailable,
	codes.DeadlineExceeded: ErrTimeout,
	codes.Unimplemented:    ErrUnimplemented,
	codes.Canceled:         context.Canceled,
}

// explain says what was attempted, where, and what the failure means.
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

// absurd names the call and the field of an answer that can not be right.
func absurd(call, field string) error {
	return fmt.Errorf("%s: %w: %s", call, ErrAbsurd, field)
}
