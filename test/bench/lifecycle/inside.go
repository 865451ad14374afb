package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/test/harness/fakeapiserver"
)

// inside is a client with in-process watches, which deliver the objects themselves. All other
// requests use the network.
type inside struct {
	kubernetes.Interface
	crowd *fakeapiserver.Crowd
}

func (c inside) CoreV1() coreclient.CoreV1Interface { return insideCore{c.Interface.CoreV1(), c.crowd} }

func (c inside) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return insideCoordination{c.Interface.CoordinationV1(), c.crowd}
}

type insideCore struct {
	coreclient.CoreV1Interface
	crowd *fakeapiserver.Crowd
}

func (c insideCore) Nodes() coreclient.NodeInterface {
	return insideNodes{c.CoreV1Interface.Nodes(), c.crowd}
}

func (c insideCore) Pods(namespace string) coreclient.PodInterface {
	return insidePods{c.CoreV1Interface.Pods(namespace), c.crowd, namespace}
}

// RESTClient implements CoreV1Interface. It hides the interfaces by which client-go would watch
// in another way than here.
func (c insideCore) RESTClient() rest.Interface {
	return struct{ rest.Interface }{c.CoreV1Interface.RESTClient()}
}

type insideNodes struct {
	coreclient.NodeInterface
	crowd *fakeapiserver.Crowd
}

func (n insideNodes) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return n.crowd.Watch(ctx, corev1.Resource("nodes"), "", o)
}

type insidePods struct {
	coreclient.PodInterface
	crowd     *fakeapiserver.Crowd
	namespace string
}

func (p insidePods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return p.crowd.Watch(ctx, corev1.Resource("pods"), p.namespace, o)
}

type insideCoordination struct {
	coordinationclient.CoordinationV1Interface
	crowd *fakeapiserver.Crowd
}

func (c insideCoordination) Leases(namespace string) coordinationclient.LeaseInterface {
	return insideLeases{c.CoordinationV1Interface.Leases(namespace), c.crowd, namespace}
}

type insideLeases struct {
	coordinationclient.LeaseInterface
	crowd     *fakeapiserver.Crowd
	namespace string
}

func (l insideLeases) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return l.crowd.Watch(ctx, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, l.namespace, o)
}
