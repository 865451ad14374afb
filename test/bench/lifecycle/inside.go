package main

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// inside is a client with in-process watches, which deliver the objects themselves. All other
// requests use the network.
type inside struct {
	api.Interface
	cluster *fakeapiserver.Cluster
}

// Core implements api.Interface. It hides the interfaces by which client-go would watch in another
// way than here.
func (c inside) Core() rest.Interface { return struct{ rest.Interface }{c.Interface.Core()} }

func (c inside) Nodes() api.Resource[*corev1.Node, *corev1.NodeList] {
	return watched[*corev1.Node, *corev1.NodeList]{c.Interface.Nodes(), c.cluster, corev1.Resource("nodes"), ""}
}

func (c inside) Pods(namespace string) api.Resource[*corev1.Pod, *corev1.PodList] {
	return watched[*corev1.Pod, *corev1.PodList]{c.Interface.Pods(namespace), c.cluster, corev1.Resource("pods"), namespace}
}

func (c inside) Leases(namespace string) api.Resource[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	return watched[*coordinationv1.Lease, *coordinationv1.LeaseList]{c.Interface.Leases(namespace), c.cluster, resource, namespace}
}

// watched is a resource with in-process watches.
type watched[T, L runtime.Object] struct {
	api.Resource[T, L]
	cluster   *fakeapiserver.Cluster
	resource  schema.GroupResource
	namespace string
}

func (w watched[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return w.cluster.Watch(ctx, w.resource, w.namespace, o)
}
