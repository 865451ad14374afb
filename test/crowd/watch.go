package crowd

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

type eventKind = watch.EventType

const (
	added    = watch.Added
	modified = watch.Modified
	deleted  = watch.Deleted
)

// remembered is how many changes of a resource a watch can begin in the past.
const remembered = 8192

// bookmarks come that often, as from a real server.
const bookmarks = time.Minute

// An event is a change. What it looks like in a media type is found once,
// whoever is the first to send it.
type event struct {
	kind    eventKind
	version uint64
	object  object
	frames  *frames
}

func newEvent(kind eventKind, version uint64, o object) event {
	return event{kind, version, o, &frames{}}
}

// frames are an event's forms on the wire.
type frames struct {
	mu   sync.Mutex
	by   [len(formats)][]byte
	done [len(formats)]bool
}

// in is the event as a frame of that format.
func (e *event) in(f *format) ([]byte, error) {
	e.frames.mu.Lock()
	defer e.frames.mu.Unlock()
	if !e.frames.done[f.at] {
		frame, err := f.frame(e.kind, e.object)
		if err != nil {
			return nil, err
		}
		e.frames.by[f.at], e.frames.done[f.at] = frame, true
	}
	return e.frames.by[f.at], nil
}

// A watcher gets every event after the one that it began with, in order.
type watcher struct {
	mu      sync.Mutex
	queue   []event
	sending int           // that were taken and are not sent yet
	woken   chan struct{} // capacity 1
}

func (w *watcher) push(e event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// take takes the queue over; what it held counts as behind until it is sent.
func (w *watcher) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.queue
	w.queue, w.sending = nil, len(taken)
	return taken
}

// sent says that what was taken was sent.
func (w *watcher) sent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = 0
}

func (w *watcher) behind() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) + w.sending
}

// tell hands an event to all watchers. The caller holds the lock of the crowd.
func (s *shelf) tell(e event) {
	if len(s.history) >= 2*remembered {
		s.forgot = s.history[remembered-1].version
		s.history = slices.Delete(s.history, 0, remembered)
	}
	s.history = append(s.history, e)
	for w := range s.watchers {
		w.push(e)
	}
}

// subscribe begins a watch after a version, or now. now is the version of the
// present state.
func (c *Crowd) subscribe(s *shelf, after string) (w *watcher, now uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w = &watcher{woken: make(chan struct{}, 1)}
	if after != "" && after != "0" {
		v, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			return nil, 0, apierrors.NewBadRequest("resourceVersion: " + err.Error())
		}
		if v < s.forgot {
			return nil, 0, apierrors.NewResourceExpired("too old resource version: " + after)
		}
		for _, e := range s.history {
			if e.version > v {
				w.push(e)
			}
		}
	}
	s.watchers[w] = struct{}{}
	return w, c.version, nil
}

// Behind is how many changes the slowest watcher has not been sent yet.
func (c *Crowd) Behind() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, s := range c.shelves {
		for w := range s.watchers {
			most = max(most, w.behind())
		}
	}
	return most
}

func (c *Crowd) unsubscribe(s *shelf, w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.watchers, w)
}

// A stream is one watch that is being answered.
type stream struct {
	to     http.ResponseWriter
	flush  func()
	format *format
	shelf  *shelf
	want   func(object) bool
	marks  bool // the client takes bookmarks
}

// watch answers a watch until ctx ends.
func (c *Crowd) watch(ctx context.Context, q *query, t *stream) error {
	first := q.initial || q.version == "" || q.version == "0"
	from := q.version
	if first {
		from = ""
	}
	w, now, err := c.subscribe(t.shelf, from)
	if err != nil {
		return err
	}
	defer c.unsubscribe(t.shelf, w)
	t.to.Header().Set("Content-Type", t.format.streamType)
	t.to.WriteHeader(http.StatusOK)
	t.flush()
	if first {
		if err := c.begin(t); err != nil {
			return hangUp(err)
		}
	}
	if q.initial {
		if err := t.mark(now, true); err != nil {
			return hangUp(err)
		}
	}
	return hangUp(c.follow(ctx, w, t))
}

// hangUp is the end of an answer that has begun: there is no other way left to
// tell the client of an error.
func hangUp(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// begin sends everything that there is.
func (c *Crowd) begin(t *stream) error {
	for place := 0; ; place++ {
		c.mu.Lock()
		if place >= t.shelf.places() {
			c.mu.Unlock()
			return nil
		}
		o := t.shelf.in(place)
		c.mu.Unlock()
		if o == nil || !t.want(o) {
			continue
		}
		frame, err := t.format.frame(added, o)
		if err != nil {
			return err
		}
		if _, err := t.to.Write(frame); err != nil {
			return err
		}
	}
}

func (c *Crowd) follow(ctx context.Context, w *watcher, t *stream) error {
	tick := time.NewTicker(bookmarks)
	defer tick.Stop()
	for {
		mark := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			mark = true
		case <-w.woken:
		}
		now := c.present() // everything up to it is in the queue
		for _, e := range w.take() {
			if err := t.send(&e); err != nil {
				return err
			}
		}
		t.flush()
		w.sent()
		if !mark {
			continue
		}
		if err := t.mark(now, false); err != nil {
			return err
		}
	}
}

func (c *Crowd) present() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

func (t *stream) send(e *event) error {
	if !t.want(e.object) {
		return nil
	}
	frame, err := e.in(t.format)
	if err != nil {
		return err
	}
	_, err = t.to.Write(frame)
	return err
}

// mark sends a bookmark; last says that it ends what there was to begin with.
func (t *stream) mark(version uint64, last bool) error {
	if !t.marks {
		return nil
	}
	o, err := t.shelf.empty()
	if err != nil {
		return err
	}
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	if last {
		o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	frame, err := t.format.frame(watch.Bookmark, o)
	if err != nil {
		return err
	}
	if _, err := t.to.Write(frame); err != nil {
		return err
	}
	t.flush()
	return nil
}
