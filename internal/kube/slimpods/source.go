package slimpods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// Source is a [reflector.Source] of pods, with the further fields of its [reflector.Kind].
type Source struct {
	api.Resource[*corev1.Pod, *corev1.PodList]
	Request func() *rest.Request
	Example runtime.Object
}

// From returns the pods of one namespace or, if it is empty, of all. They are decoded as [Pod],
// over the connection of the client and within its limits. Pods of another kind of client, as in
// tests, are whole.
func From(client api.Interface, namespace string) Source {
	s := Source{Resource: client.Pods(namespace), Request: reflector.Requests(client.Core(), "pods", namespace), Example: &corev1.Pod{}}
	connected, is := client.Core().(*rest.RESTClient)
	if !is || connected == nil {
		return s
	}
	base := connected.Get().URL() // without a resource: the URL of the API's group and version
	slim, err := rest.NewRESTClient(base, "", content, connected.GetRateLimiter(), connected.Client)
	if err == nil {
		s.Request, s.Example = reflector.Requests(slim, "pods", namespace), &Pod{}
	}
	return s
}

// Watch implements reflector.Source.
func (s Source) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if _, slim := s.Example.(*Pod); !slim {
		return s.Resource.Watch(ctx, o)
	}
	o.Watch = true
	return s.Request().VersionedParams(&o, api.ParameterCodec).Watch(ctx)
}

// content is the encoding of responses: events of a watch contain a [Pod].
var content = func() rest.ClientContentConfig {
	own := runtime.NewScheme()
	metav1.AddToGroupVersion(own, corev1.SchemeGroupVersion)
	own.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("Pod"), &Pod{})
	codecs := serializer.NewCodecFactory(own).WithoutConversion()
	return rest.ClientContentConfig{
		AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON, ContentType: runtime.ContentTypeProtobuf,
		GroupVersion: corev1.SchemeGroupVersion, Negotiator: runtime.NewClientNegotiator(codecs, corev1.SchemeGroupVersion),
	}
}()
