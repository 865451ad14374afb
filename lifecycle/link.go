package lifecycle

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// timeouts has the timeouts for the server. A list of all pods of a large cluster takes long; the
// first response to a watch does not. A process that was cut off reconnects within seconds, with
// few peers.
var timeouts = reflector.Timeouts{
	List:   5 * time.Minute,
	Open:   90 * time.Second,
	Pauses: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 20},
}

// feed follows one kind of object until ctx ends, and returns a function that waits for its end.
type feed func(ctx context.Context) (wait func())

// feedOf returns a feed with its own link, which receives the result of each request.
func feedOf[L runtime.Object](c *Controller, k reflector.Kind[L]) feed {
	k.Patience = timeouts
	l := c.link(k.What)
	return func(ctx context.Context) func() { return k.Run(ctx, c.parts.Watching, l.observe) }
}

// link is the state of the requests for one kind, of which the core is informed.
type link struct {
	reflector.Health
	fails func() // called after each request without an answer
}

// observe records the result of a request within ctx.
func (l *link) observe(ctx context.Context, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = nil // an answer: the version was too old, and a new list follows
	}
	if err != nil && ctx.Err() == nil && !refused(err) {
		l.fails()
	}
	l.Observe(ctx, err)
}

// refused reports whether the server answers, and would repeat the refusal. This is no outage: as
// a permanent one it would protect every node from being declared lost.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
