package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// patience bounds the waits for the server. A list of one node's objects is short. Some proxies
// forward nothing of a watch before its first event, and a server sends one event a minute. A node
// recovers within 15 s after an interruption, and many nodes do not reconnect at once.
var patience = reflector.Patience{
	List:   30 * time.Second,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 10 * time.Second, Steps: 20},
}

// run watches a kind until ctx ends, and reports every result to the link. It returns at once.
func run[L runtime.Object](ctx context.Context, c *Connection, l *link, k reflector.Kind[L]) {
	k.What, k.Patience = l.what, patience
	k.Run(l.along(ctx), c.watching, func(ctx context.Context, err error) {
		if errors.Is(err, reflector.ErrNoVersion) {
			err = fmt.Errorf("%w: an API server gives one", err)
		}
		l.tell(ctx, err)
	})
}

// link is the state of the requests for one kind of object. It logs each change once.
type link struct {
	what string
	log  *slog.Logger

	mu    sync.Mutex
	fault error
	since time.Time
}

// tell records the result of a request within ctx.
func (l *link) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // cancelled by this program: no fault of the server
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.fault; {
	case err != nil && was == nil:
		l.since = time.Now()
		l.log.Warn("Failed to reach the API server, using the last known objects", "kind", l.what, "error", err)
	case err == nil && was != nil:
		l.log.Info("Resumed requests to the API server", "kind", l.what, "after", time.Since(l.since).Round(time.Millisecond))
	}
	l.fault = err
}

type linkKey struct{}

// along returns a context that carries the link to the attempts within it.
func (l *link) along(ctx context.Context) context.Context {
	return context.WithValue(ctx, linkKey{}, l)
}

// attempts reports the failure of each attempt of a request to its link. client-go retries up to
// ten times before it returns an error, which takes minutes if each attempt times out.
type attempts struct{ http.RoundTripper }

func (a attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	if l, ok := r.Context().Value(linkKey{}).(*link); ok {
		switch {
		case err != nil:
			l.tell(r.Context(), err)
		case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError:
			l.tell(r.Context(), fmt.Errorf("it answers %s", answer.Status))
		}
	}
	return answer, err
}

func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return fmt.Errorf("watch %s since %s: %w", l.what, l.since.Format(time.RFC3339), l.fault)
}
