package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// patience has the timeouts for the server. A list of all pods of a large cluster takes long; the
// first response to a watch does not. A process that was cut off reconnects within seconds, with
// few peers.
var patience = reflector.Patience{
	List:   5 * time.Minute,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 20},
}

// feed follows one kind of object until ctx ends, and returns a function that waits for its end.
type feed func(ctx context.Context) (wait func())

// feedOf returns a feed with its own link, which receives the result of each request.
func feedOf[L runtime.Object](c *Controller, k reflector.Kind[L]) feed {
	k.Patience = patience
	l := c.link(k.What)
	return func(ctx context.Context) func() { return k.Run(ctx, c.parts.Watching, l.observe) }
}

// link tracks whether the server answers requests for one kind, and logs each change once.
type link struct {
	what  string
	log   *slog.Logger
	fails func() // called after each request without an answer

	mu    sync.Mutex
	fault error
	since time.Time
}

// observe records the result of a request within ctx.
func (l *link) observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // ended by this process: no information about the server
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = nil // an answer: the version was too old, and a new list follows
	}
	if err != nil && !refused(err) {
		l.fails()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.fault; {
	case err != nil && was == nil:
		l.since = time.Now()
		l.log.Warn("Failed to reach the API server, declaring no node lost because of it", "kind", l.what, "error", err)
	case err == nil && was != nil:
		l.log.Info("Resumed requests to the API server", "kind", l.what, "after", time.Since(l.since).Round(time.Millisecond))
	}
	l.fault = err
}

// err returns the error of the present outage, or nil without one.
func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return fmt.Errorf("%s since %s: %w", l.what, l.since.Format(time.RFC3339), l.fault)
}

// refused reports whether the server answers, and would repeat the refusal. This is no outage: as
// a permanent one it would protect every node from being declared lost.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
