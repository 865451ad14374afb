package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// ErrNoVersion is the error for a response that decodes as a list, perhaps an empty one, and has no
// resource version. An API server sets one.
var ErrNoVersion = errors.New("the answer is a list without a resource version")

// list requests a complete list, or a page of one.
func (k Kind[L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if k.Request == nil {
		return k.whole(ctx, o)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := func() { cancel(context.DeadlineExceeded) }
	next, end := time.AfterFunc(k.Patience.List, late), time.AfterFunc(patientLists*k.Patience.List, late)
	defer next.Stop()
	defer end.Stop()
	list, into := &internalversion.List{}, store{k.Into}
	o = k.within(o)
	about, err := Each(ctx, k.Request().VersionedParams(&o, api.ParameterCodec), k.Example, func(object runtime.Object) error {
		next.Reset(k.Patience.List)
		made, err := into.shorten(object)
		list.Items = append(list.Items, made)
		return err
	})
	switch {
	case context.Cause(ctx) == context.DeadlineExceeded:
		return nil, fmt.Errorf("no further object of a list within %s: %w", k.Patience.List, context.DeadlineExceeded)
	case err != nil:
		return nil, err
	case about.ResourceVersion == "":
		return nil, ErrNoVersion
	}
	list.ListMeta = about
	return list, nil
}

// patientLists bounds the duration of a list with steady progress, as a multiple of the bound for
// each object.
const patientLists = 20

// whole requests a list and decodes it as a whole.
func (k Kind[L]) whole(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, k.Patience.List)
	defer cancel()
	list, err := k.From.List(ctx, k.within(o))
	if err != nil {
		return nil, err
	}
	about, err := meta.ListAccessor(list)
	if err == nil && about.GetResourceVersion() == "" {
		err = ErrNoVersion
	}
	return list, err
}

// emptyWatch is client-go's result, without an error, if a connection ended before the response: as
// behind a load balancer without servers.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// open opens a watch, or abandons a server that accepts connections and does not respond.
func (k Kind[L]) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(k.Patience.Open, cancel)
	w, err := k.From.Watch(ctx, k.within(o))
	if !late.Stop() {
		if err == nil {
			w.Stop()
		}
		err = fmt.Errorf("no answer to a watch within %s", k.Patience.Open)
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

// within restricts a request to the selector.
func (k Kind[L]) within(o metav1.ListOptions) metav1.ListOptions {
	if k.Selector != nil {
		o.FieldSelector = k.Selector.String()
	}
	return o
}

// opened is a watch that releases its context when it is stopped.
type opened struct {
	watch.Interface
	cancel context.CancelFunc
}

func (w opened) Stop() {
	w.Interface.Stop()
	w.cancel()
}
