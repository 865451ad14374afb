package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// patience bounds the waits for the server. A list of one node's objects is short. Some proxies
// forward nothing of a watch before its first event, and a server sends one event a minute. A node
// recovers within 15 s after an interruption, and many nodes do not reconnect at once.
var patience = reflector.Timeouts{
	List:   30 * time.Second,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 10 * time.Second, Steps: 20},
}

// run watches a kind until ctx ends, and reports every result to h. It returns at once.
func run[L runtime.Object](ctx context.Context, c *Connection, h *reflector.Health, k reflector.Kind[L]) {
	h.Failed, h.Log = "Failed to reach the API server, using the last known objects", c.log
	k.What, k.Patience = h.What, patience
	k.Run(context.WithValue(ctx, healthKey{}, h), c.watching, func(ctx context.Context, err error) {
		if errors.Is(err, reflector.ErrNoVersion) {
			err = fmt.Errorf("%w: an API server gives one", err)
		}
		h.Observe(ctx, err)
	})
}

// healthKey is the key of the [reflector.Health] in the contexts of watches.
type healthKey struct{}

// attempts reports the failure of each attempt of a request. client-go retries up to
// ten times before it returns an error, which takes minutes if each attempt times out.
type attempts struct{ http.RoundTripper }

func (a attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	if h, ok := r.Context().Value(healthKey{}).(*reflector.Health); ok {
		switch {
		case err != nil:
			h.Observe(r.Context(), err)
		case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError:
			h.Observe(r.Context(), fmt.Errorf("it answers %s", answer.Status))
		}
	}
	return answer, err
}
