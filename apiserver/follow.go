package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// listTimeout bounds a list of one node's objects.
	listTimeout = 30 * time.Second
	// openTimeout bounds the wait for the first answer to a watch. Some proxies
	// pass nothing on before there is an event, and a server sends one a minute.
	openTimeout = 90 * time.Second
)

// retries are the pauses between attempts to reach the server: a node that was
// cut off is back within 15 s, and many nodes do not come back at once.
func retries() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 10 * time.Second, Steps: 20}
}

// A source is where objects of one kind are listed and watched.
type source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// A followed kind is what of a server is kept up to date.
type followed[L runtime.Object] struct {
	from     source[L]
	selector fields.Selector
	example  runtime.Object
	link     *link
	into     cache.ReflectorStore
}

// follow keeps into up to date until ctx ends. It returns at once.
//
// A reflector without the rest of an informer: what it lists replaces the store
// in one step, and no second copy of the objects is kept. What it would log at
// each attempt is left to the link, which says it once.
func follow[L runtime.Object](ctx context.Context, c *Connection, f followed[L]) {
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = f.selector.String()
			list, err := listed(f.link.along(ctx), f.from, o)
			f.link.tell(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = f.selector.String()
			w, err := opened(f.link.along(ctx), f.from, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // an older server: it is asked for a list next
				f.link.tell(ctx, err)
			}
			return w, err
		},
	}
	silent := klog.Logger{}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, c.watching), f.example, f.into,
		cache.ReflectorOptions{Name: f.link.what, Logger: &silent, Backoff: retries()})
	go r.RunWithContext(klog.NewContext(ctx, silent))
}

// listed lists objects. What is not from an API server may decode as a list
// that is empty, but has no resource version.
func listed[L runtime.Object](ctx context.Context, from source[L], o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := from.List(ctx, o)
	if err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(list)
	if err == nil && about.GetResourceVersion() == "" {
		err = errors.New("the answer is a list without a resource version: an API server gives one")
	}
	return list, err
}

// emptyWatch is what client-go gives, without an error, when a connection ended
// before there was an answer: as behind a load balancer that has no server left.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// opened opens a watch. A server that accepts connections but answers nothing is
// given up.
func opened[L runtime.Object](ctx context.Context, from source[L], o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(openTimeout, cancel)
	w, err := from.Watch(ctx, o)
	if !late.Stop() {
		if err == nil {
			w.Stop()
		}
		err = fmt.Errorf("no answer to a watch within %s", openTimeout)
	}
	if err == nil && reflect.TypeOf(w) == emptyWatch {
		err = errors.New("the connection ended before there was an answer to a watch")
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return openWatch{w, cancel}, nil
}

// An openWatch frees its context when it is stopped.
type openWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

func (w openWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
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

// along is a context by which an attempt finds its link.
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
