package fakeapiserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sink receives the events of one watch.
type sink interface {
	open()
	send(e *event) error
	flush()
}

// stream is one watch in progress.
type stream struct {
	to      sink
	store   *store
	want    func(object) bool
	from    string // the version before the first event; empty or 0: begin with the current state
	initial bool   // a bookmark marks the end of the initial state
	marks   bool   // the client accepts bookmarks
}

// watch answers a watch until ctx ends. After its begin the only possible response is an error.
func (c *Cluster) watch(ctx context.Context, t *stream) (begun bool, err error) {
	first := t.initial || t.from == "" || t.from == "0"
	if first {
		t.from = ""
	}
	w, now, err := c.subscribe(t.store, t.from)
	if err != nil {
		return false, err
	}
	defer c.unsubscribe(t.store, w)
	t.to.open()
	if first {
		if err := c.begin(t); err != nil {
			return true, err
		}
	}
	if t.initial {
		if err := t.mark(now, true); err != nil {
			return true, err
		}
	}
	return true, c.follow(ctx, w, t)
}

// begin sends the initial state.
func (c *Cluster) begin(t *stream) error {
	for place := 0; ; place++ {
		c.mu.Lock()
		if place >= t.store.places() {
			c.mu.Unlock()
			return nil
		}
		o := t.store.in(place)
		c.mu.Unlock()
		if o == nil || !t.want(o) {
			continue
		}
		if err := t.to.send(&event{kind: added, object: o}); err != nil {
			return err
		}
	}
}

func (c *Cluster) follow(ctx context.Context, w *watcher, t *stream) error {
	tick := time.NewTicker(bookmarks)
	defer tick.Stop()
	for {
		mark := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			mark = true
		case <-w.woken:
		}
		now := c.present() // every event up to it is in the queue
		for _, e := range w.take() {
			if !t.want(e.object) {
				continue
			}
			if err := t.to.send(&e); err != nil {
				return err
			}
		}
		t.to.flush()
		w.sent()
		if !mark {
			continue
		}
		if err := t.mark(now, false); err != nil {
			return err
		}
	}
}

func (c *Cluster) present() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// mark sends a bookmark; last marks the end of the initial state.
func (t *stream) mark(version uint64, last bool) error {
	if !t.marks {
		return nil
	}
	o, err := t.store.empty()
	if err != nil {
		return err
	}
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	if last {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if err := t.to.send(&event{kind: watch.Bookmark, object: o}); err != nil {
		return err
	}
	t.to.flush()
	return nil
}

// wire is a sink of bytes.
type wire struct {
	w      http.ResponseWriter
	format *format
}

func (t *wire) open() {
	t.w.Header().Set("Content-Type", t.format.streamType)
	t.w.WriteHeader(http.StatusOK)
	t.flush()
}

func (t *wire) send(e *event) error {
	frame, err := e.in(t.format)
	if err != nil {
		return err
	}
	_, err = t.w.Write(frame)
	return err
}

func (t *wire) flush() { _ = http.NewResponseController(t.w).Flush() }

// hangUp aborts a response that has begun: no other way remains to report an error to the
// client.
func hangUp(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler)
	}
	return nil
}
