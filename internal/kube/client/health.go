package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

// observed calls onFailure for each attempt of a request that failed.
type observed struct {
	http.RoundTripper
	onFailure func(*http.Request)
}

func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.RoundTripper.RoundTrip(r)
	if failed(r, answer, err) {
		o.onFailure(r)
	}
	return answer, err
}

// failed reports whether an attempt of a request has failed: there is no response, and the caller has not canceled
// it, or the status is an error. Of these, some are usual: 404 of an object that is gone or does not exist yet, 409
// of an object that another client has written, 410 of a watch that continues from an old version, and 422 of a server
// that sends no list as events. A create fails by 404, since its namespace is missing. An eviction does not, nor by
// 429, which may be of a PodDisruptionBudget.
func failed(r *http.Request, answer *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(r.Context().Err(), context.Canceled)
	}
	evicts := strings.HasSuffix(r.URL.Path, "/eviction")
	switch answer.StatusCode {
	case http.StatusNotFound:
		return r.Method == http.MethodPost && !evicts
	case http.StatusTooManyRequests:
		return !evicts
	case http.StatusUnprocessableEntity:
		return r.Method != http.MethodGet
	case http.StatusConflict, http.StatusGone:
		return false
	}
	return answer.StatusCode >= http.StatusBadRequest
}
