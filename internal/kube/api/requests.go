package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// Prefix is common to the condition types, taints and annotations of Plimsoll.
	Prefix = "plimsoll.dev/"
	// MaxConflicts bounds the attempts of the agent to write against concurrent writes.
	MaxConflicts = 3
	// FieldOwner is the field manager in all writes by the agent.
	FieldOwner = "plimsoll-agent"
	// RequestTimeout bounds one request of the agent that reports its state.
	RequestTimeout = 8 * time.Second
)

// Explain adds the attempt and, for a forbidden request, the missing right. It returns nil for a
// nil error.
func Explain(err error, attempt, right string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: grant the agent's service account the right to %s", attempt, err, right)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: the API server did not answer within %s", attempt, err, RequestTimeout)
	}
	return fmt.Errorf("%s: %w", attempt, err)
}
