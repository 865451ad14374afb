package fakeapiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch answers a watch within this process: objects are passed directly, without encoding.
// They are shared and must not be changed. Returns an error if a selector is invalid or the
// version is too old.
func (c *Cluster) Watch(ctx context.Context, of schema.GroupResource, namespace string, o metav1.ListOptions) (watch.Interface, error) {
	q := &query{resource: of, namespace: namespace, verb: "WATCH"}
	if err := q.choose(o.FieldSelector, o.LabelSelector); err != nil {
		return nil, err
	}
	c.count(q)
	ctx, cancel := context.WithCancel(ctx)
	h := &directSink{ctx: ctx, cancel: cancel, to: make(chan watch.Event)}
	t := &stream{
		to: h, store: c.stores[of], want: q.want, from: o.ResourceVersion, marks: o.AllowWatchBookmarks,
		initial: o.SendInitialEvents != nil && *o.SendInitialEvents,
	}
	failed, opened := make(chan error, 1), make(chan struct{})
	h.opened = opened
	go func() {
		defer close(h.to)
		if begun, err := c.watch(ctx, t); !begun {
			failed <- err
		}
	}()
	select {
	case err := <-failed:
		cancel()
		return nil, err
	case <-opened:
		return h, nil
	}
}

// directSink is a sink that passes objects directly.
type directSink struct {
	ctx    context.Context
	cancel context.CancelFunc
	to     chan watch.Event
	opened chan struct{}
}

func (h *directSink) open() { close(h.opened) }

func (h *directSink) send(e *event) error {
	select {
	case h.to <- watch.Event{Type: e.kind, Object: e.object}:
		return nil
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
}

func (h *directSink) flush() {}

// Stop implements watch.Interface.
func (h *directSink) Stop() { h.cancel() }

// ResultChan implements watch.Interface.
func (h *directSink) ResultChan() <-chan watch.Event { return h.to }
