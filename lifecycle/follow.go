package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Bounds of the wait for the server: a list of all pods of a large cluster takes
// its time; the first answer to a watch does not.
const (
	listTimeout = 5 * time.Minute
	openTimeout = 90 * time.Second
)

// A source is a list of objects that can be followed.
type source interface {
	name() string
	follow(ctx context.Context, watching any, l *link) (wait func())
}

// A followed list is where its objects come from and where they go.
type followed[L runtime.Object] struct {
	what string
	from interface {
		List(context.Context, metav1.ListOptions) (L, error)
		Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	}
	selector fields.Selector // nil: all
	example  runtime.Object
	into     cache.ReflectorStore
}

func (f followed[L]) name() string { return f.what }

// follow keeps the store up to date until ctx ends, and returns what waits for
// that. It is told to the link how each request went.
//
// A reflector without the rest of an informer: no second copy of anything is kept,
// and a list that is read again replaces the old one in one step.
func (f followed[L]) follow(ctx context.Context, watching any, l *link) func() {
	scope := func(o *metav1.ListOptions) {
		if f.selector != nil {
			o.FieldSelector = f.selector.String()
		}
	}
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			scope(&o)
			list, err := f.list(ctx, o)
			l.tell(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			scope(&o)
			w, err := f.open(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // an older server: it is asked for a list next
				l.tell(ctx, err)
			}
			return w, err
		},
	}
	silent := klog.Logger{}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, watching), f.example, f.into,
		cache.ReflectorOptions{Name: f.what, Logger: &silent, Backoff: pauses()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.RunWithContext(klog.NewContext(ctx, silent))
	}()
	return func() { <-done }
}

// pauses are those between attempts: who was cut off is back within seconds, and
// has few comrades.
func pauses() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 5 * time.Second, Steps: 20}
}

// list refuses what decodes as a list without being one: an API server gives it a
// resource version.
func (f followed[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.from.List(ctx, o)
	if err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(list)
	if err == nil && about.GetResourceVersion() == "" {
		err = errors.New("the answer is a list without a resource version")
	}
	return list, err
}

// emptyWatch is what client-go gives, without an error, when a connection ended
// before there was an answer.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// open gives up a server that accepts connections and answers nothing.
func (f followed[L]) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(openTimeout, cancel)
	w, err := f.from.Watch(ctx, o)
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
	return opened{w, cancel}, nil
}

// An opened watch frees its context when it is stopped.
type opened struct {
	watch.Interface
	cancel context.CancelFunc
}

func (w opened) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// A link knows whether the server answers to what is asked of one kind, and says
// so once when that changes.
type link struct {
	what  string
	log   *slog.Logger
	fails func() // called each time that the server did not answer

	mu    sync.Mutex
	fault error
	since time.Time
}

// tell notes how a request within ctx went.
func (l *link) tell(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // ended by ourselves: that says nothing about the server
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = nil // an answer: what we hold is too old, and is listed anew
	}
	if err != nil && !refused(err) {
		l.fails()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch was := l.fault; {
	case err != nil && was == nil:
		l.since = time.Now()
		l.log.Warn("the API server does not answer as it should: nobody is given up for it", "asked for", l.what, "error", err)
	case err == nil && was != nil:
		l.log.Info("the API server answers again", "asked for", l.what, "after", time.Since(l.since).Round(time.Millisecond))
	}
	l.fault = err
}

// err is what the server has not been answering with, nil while all is well.
func (l *link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return nil
	}
	return fmt.Errorf("%s since %s: %w", l.what, l.since.Format(time.RFC3339), l.fault)
}

// refused: the server answers, and will answer the same again. That is no outage:
// as one that lasts for ever it would keep every node from being given up.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
