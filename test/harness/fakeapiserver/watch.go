package fakeapiserver

import (
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

type eventKind = watch.EventType

const (
	added    = watch.Added
	modified = watch.Modified
	deleted  = watch.Deleted
)

// historySize is the number of past changes of a resource from which a watch can resume.
const historySize = 8192

// bookmarks is the interval of bookmarks, as of a real server.
const bookmarks = time.Minute

// event is a change. Each of its encodings is computed once, by the first sender.
type event struct {
	kind    eventKind
	version uint64
	object  object
	frames  *frames
}

func newEvent(kind eventKind, version uint64, o object) event {
	return event{kind, version, o, &frames{}}
}

// frames are the encodings of an event.
type frames struct {
	mu sync.Mutex
	by [len(formats)][]byte
}

// in returns the event as a frame of that format. Frames of events without other watchers are
// not stored.
func (e *event) in(f *format) ([]byte, error) {
	if e.frames == nil {
		return f.frame(e.kind, e.object)
	}
	e.frames.mu.Lock()
	defer e.frames.mu.Unlock()
	if e.frames.by[f.at] == nil {
		frame, err := f.frame(e.kind, e.object)
		if err != nil {
			return nil, err
		}
		e.frames.by[f.at] = frame
	}
	return e.frames.by[f.at], nil
}

// watcher receives every event after its initial version, in order.
type watcher struct {
	mu      sync.Mutex
	queue   []event
	sending int           // taken, but not sent yet
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

// take empties the queue; its events count as behind until they are sent.
func (w *watcher) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.queue
	w.queue, w.sending = nil, len(taken)
	return taken
}

// sent marks the taken events as sent.
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

// notify sends an event to all watchers. The caller holds the lock of the cluster.
func (s *store) notify(e event) {
	if len(s.history) >= 2*historySize {
		s.forgot = s.history[historySize-1].version
		s.history = slices.Delete(s.history, 0, historySize)
	}
	s.history = append(s.history, e)
	for w := range s.watchers {
		w.push(e)
	}
}

// subscribe begins a watch after a version, or now. The second result is the version of the
// current state.
func (c *Cluster) subscribe(s *store, after string) (w *watcher, now uint64, err error) {
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

// Behind returns the number of changes that the slowest watcher has not received yet.
func (c *Cluster) Behind() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	maxBehind := 0
	for _, s := range c.stores {
		for w := range s.watchers {
			maxBehind = max(maxBehind, w.behind())
		}
	}
	return maxBehind
}

func (c *Cluster) unsubscribe(s *store, w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.watchers, w)
}
