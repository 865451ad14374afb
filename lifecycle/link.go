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

// patience with the server: a list of all pods of a large cluster takes its time;
// the first answer to a watch does not. Who was cut off is back within seconds, and
// has few comrades.
var patience = reflector.Patience{
	List:   5 * time.Minute,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 20},
}

// A feed follows one kind of object until ctx ends, and returns what waits for that.
type feed func(ctx context.Context) (wait func())

// feedOf makes a feed with a link of its own, which is told how each request went.
func feedOf[L runtime.Object](c *Controller, k reflector.Kind[L]) feed {
	k.Patience = patience
	l := c.link(k.What)
	return func(ctx context.Context) func() { return k.Run(ctx, c.parts.Watching, l.observe) }
}

// A link knows whether the server answers to what is asked of one kind, and says
// so once when that changes.
type link struct {
	what  string
	log   *slog.Logger
	fails func() // called each time that the server did not answer

	mu    sync.Mutex
	fault error
	since time.Time
}

// observe notes how a request within ctx went.
func (l *link) observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // ended by ourselves: that says nothing about the server
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = nil // an answer: what we hold is too old, and is listed anew
	}
	if err != nil && !refused(err) {
		l.fails()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.fault; {
	case err != nil && was == nil:
		l.since = time.Now()
		l.log.Warn("the API server does not answer as it should: nobody is given up for it", "asked for", l.what, "error", err)
	case err == nil && was != nil:
		l.log.Info("the API server answers again", "asked for", l.what, "after", time.Since(l.since).Round(time.Millisecond))
	}
	l.fault = err
}

// err is what the server has not been answering with, nil while all is well.
func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return fmt.Errorf("%s since %s: %w", l.what, l.since.Format(time.RFC3339), l.fault)
}

// refused: the server answers, and will answer the same again. That is no outage:
// as one that lasts for ever it would keep every node from being given up.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
