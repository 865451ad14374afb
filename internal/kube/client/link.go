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

// patience with the server: a list of one node's objects is short, but some
// proxies pass nothing of a watch on before there is an event, and a server sends
// one a minute. A node that was cut off is back within 15 s, and many nodes do not
// come back at once.
var patience = reflector.Patience{
	List:   30 * time.Second,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 10 * time.Second, Steps: 20},
}

// run follows a kind until ctx ends, and has the link told how that goes. It
// returns at once.
func run[L runtime.Object](ctx context.Context, c *Connection, l *link, k reflector.Kind[L]) {
	k.What, k.Patience = l.what, patience
	k.Run(l.along(ctx), c.watching, func(ctx context.Context, err error) {
		if errors.Is(err, reflector.ErrNoVersion) {
			err = fmt.Errorf("%w: an API server gives one", err)
		}
		l.tell(ctx, err)
	})
}

// A link knows whether the server answers to the requests for one kind of
// object, and says so once when that changes.
type link struct {
	what string
	log  *slog.Logger

	mu    sync.Mutex
	fault error
	since time.Time
}

// tell notes how a request within ctx went.
func (l *link) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // ended by ourselves: that says nothing about the server
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.fault; {
	case err != nil && was == nil:
		l.since = time.Now()
		l.log.Warn("the API server does not answer as it should: what was known last serves", "watching", l.what, "error", err)
	case err == nil && was != nil:
		l.log.Info("the API server answers again", "watching", l.what, "after", time.Since(l.since).Round(time.Millisecond))
	}
	l.fault = err
}

type linkKey struct{}

// along is a context by which the attempts within it find their link.
func (l *link) along(ctx context.Context) context.Context {
	return context.WithValue(ctx, linkKey{}, l)
}

// attempts tell a link how each attempt of a request failed. client-go tries up
// to ten times before it says a word, which takes minutes if each one runs into
// a timeout.
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
