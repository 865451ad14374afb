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

// A Source is where objects of one kind are listed, as an L, and watched: the
// typed clients of client-go are such.
type Source[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// A Kind is what of a server is followed, and how patiently.
type Kind[L runtime.Object] struct {
	What     string // it is called in whatever client-go says
	From     Source[L]
	Selector fields.Selector // nil: all
	Example  runtime.Object  // an object as the store gets them
	Into     cache.ReflectorStore
	Patience Patience
	// Request makes a request for the objects that From lists. The answer is read
	// object by object, and what the transformer of Into makes of each is all that is
	// kept. Nil is for lists of a few objects: their answers are decoded as a whole.
	Request func() *rest.Request
}

// Requests returns what Kind.Request is for the objects of one resource, in one
// namespace or, if it is empty, in all. It returns nil for a client without a
// connection, as clients of tests are.
func Requests(client rest.Interface, resource, namespace string) func() *rest.Request {
	if connected, is := client.(*rest.RESTClient); is && connected == nil {
		return nil
	}
	return func() *rest.Request {
		return client.Get().Resource(resource).NamespaceIfScoped(namespace, namespace != "")
	}
}

// Patience is how long a server is waited for. All of it has to be set.
type Patience struct {
	List   time.Duration // for a complete list; with Request for each next object of it
	Open   time.Duration // for the first answer to a watch; what comes later has no bound
	Pauses wait.Backoff  // between attempts
}

// Run keeps the store up to date until ctx ends. It returns at once; wait returns
// when nothing touches the store any more.
//
// Requests are made within ctx and carry its values. watching is the client that
// From belongs to, which knows whether it can have a list sent as events. told is
// called with the error of each list and of each attempt to open a watch, nil if
// there was none, and with a context that has ended if the caller ended it. An
// older server that refuses to send a list as events is no fault: it is asked for
// a list next.
func (k Kind[L]) Run(ctx context.Context, watching any, told func(context.Context, error)) (wait func()) {
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := k.list(ctx, o)
			told(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := k.open(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
				told(ctx, err)
			}
			return w, err
		},
	}
	silent := klog.Logger{} // what it would say at each attempt is left to whoever is told
	// A reflector without the rest of an informer, which would keep all objects.
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, watching), k.Example, store{k.Into},
		cache.ReflectorOptions{Name: k.What, Logger: &silent, Backoff: &k.Patience.Pauses})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.RunWithContext(klog.NewContext(ctx, silent))
	}()
	return func() { <-done }
}
