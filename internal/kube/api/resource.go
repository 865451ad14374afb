package api

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object and list are pointers to the types that are decoded.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

type list[L any] interface {
	*L
	runtime.Object
}

// resource implements [Resource]. client-go's generic client would link the packages of its fakes.
type resource[T, L any, PT object[T], PL list[L]] struct {
	creator[T, PT]
}

func newResource[T, L any, PT object[T], PL list[L]](name string, client rest.Interface, namespace string) Resource[PT, PL] {
	return resource[T, L, PT, PL]{creator[T, PT]{name, client, namespace}}
}

// List implements Lister.
func (r resource[T, L, PT, PL]) List(ctx context.Context, o metav1.ListOptions) (PL, error) {
	all := PL(new(L))
	err := r.on(r.client.Get()).VersionedParams(&o, ParameterCodec).Timeout(seconds(o.TimeoutSeconds)).Do(ctx).Into(all)
	return all, err
}

// Get implements Resource.
func (r resource[T, L, PT, PL]) Get(ctx context.Context, name string, o metav1.GetOptions) (PT, error) {
	return r.one(ctx, r.on(r.client.Get()).Name(name).VersionedParams(&o, ParameterCodec))
}

// Watch implements Resource.
func (r resource[T, L, PT, PL]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return r.on(r.client.Get()).VersionedParams(&o, ParameterCodec).Timeout(seconds(o.TimeoutSeconds)).Watch(ctx)
}

// Update implements Resource.
func (r resource[T, L, PT, PL]) Update(ctx context.Context, changed PT, o metav1.UpdateOptions) (PT, error) {
	return r.one(ctx, r.on(r.client.Put()).Name(changed.GetName()).VersionedParams(&o, ParameterCodec).Body(changed))
}

// Patch implements Resource.
func (r resource[T, L, PT, PL]) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (PT, error) {
	return r.one(ctx, r.on(r.client.Patch(kind)).Name(name).SubResource(subresources...).VersionedParams(&o, ParameterCodec).Body(patch))
}

// Delete implements Resource.
func (r resource[T, L, PT, PL]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return r.on(r.client.Delete()).Name(name).Body(&o).Do(ctx).Error()
}

// creator implements [Creator].
type creator[T any, PT object[T]] struct {
	name      string
	client    rest.Interface
	namespace string // empty: all, or the resource has none
}

// Create implements Creator.
func (c creator[T, PT]) Create(ctx context.Context, added PT, o metav1.CreateOptions) (PT, error) {
	return c.one(ctx, c.on(c.client.Post()).VersionedParams(&o, ParameterCodec).Body(added))
}

func (c creator[T, PT]) on(r *rest.Request) *rest.Request {
	return r.UseProtobufAsDefault().NamespaceIfScoped(c.namespace, c.namespace != "").Resource(c.name)
}

// one decodes the response. After an error the object is empty, and not nil.
func (c creator[T, PT]) one(ctx context.Context, r *rest.Request) (PT, error) {
	decoded := PT(new(T))
	err := r.Do(ctx).Into(decoded)
	return decoded, err
}

// seconds returns the timeout that the server is asked for; 0 without one.
func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}
