package reflector

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Source lists objects of one kind, as an L, and watches them, like the typed clients of client-go.
type Source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Kind describes the watched objects of a server, and the bounds of the waits for it.
type Kind[L runtime.Object] struct {
	What     string // name in the messages of client-go
	From     Source[L]
	Selector fields.Selector // nil: all
	Example  runtime.Object  // an object of the type in the store
	Into     cache.ReflectorStore
	Patience Timeouts
	// Request creates a request for the objects that From lists. The response is read object by
	// object, and only the results of the transformer of Into are stored. Nil is for lists of a few
	// objects: their responses are decoded as a whole.
	Request func() *rest.Request
}

// Requests returns a Kind.Request for the objects of one resource, in one namespace or, if it is
// empty, in all. It returns nil for a client without a connection, as in tests.
func Requests(client rest.Interface, resource, namespace string) func() *rest.Request {
	if connected, is := client.(*rest.RESTClient); is && connected == nil {
		return nil
	}
	return func() *rest.Request {
		return client.Get().Resource(resource).NamespaceIfScoped(namespace, namespace != "")
	}
}

// Timeouts bounds the waits for a server. All fields are required.
type Timeouts struct {
	List   time.Duration // for a complete list; with Request, for each next object of it
	Open   time.Duration // for the first response to a watch; later ones have no bound
	Pauses wait.Backoff  // between attempts
}

// Run synchronises the store until ctx ends. It returns at once; wait returns after the last access
// to the store.
//
// Requests are made within ctx and carry its values. watching is the client of From, which knows
// whether it can receive a list as events. report receives the error of each list and of each
// attempt to open a watch, or nil. If the caller cancelled ctx, the context of report has ended. An
// older server that refuses to send a list as events is no fault: it receives a request for a list
// next.
func (k Kind[L]) Run(ctx context.Context, watching any, report func(context.Context, error)) (wait func()) {
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := k.list(ctx, o)
			report(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := k.open(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
				report(ctx, err)
			}
			return w, err
		},
	}
	silent := klog.Logger{} // report replaces its messages at each attempt
	// A reflector alone: the rest of an informer would store all objects.
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, watching), k.Example, store{k.Into},
		cache.ReflectorOptions{Name: k.What, Logger: &silent, Backoff: &k.Patience.Pauses})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.RunWithContext(klog.NewContext(ctx, silent))
	}()
	return func() { <-done }
}
