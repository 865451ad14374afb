package api

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Interface is a client of the resources that Plimsoll uses. An empty namespace stands for all
// namespaces.
type Interface interface {
	// Core and Coordination return the REST clients of the API groups "" and coordination.k8s.io.
	Core() rest.Interface
	Coordination() rest.Interface

	Nodes() Resource[*corev1.Node, *corev1.NodeList]
	Pods(namespace string) Resource[*corev1.Pod, *corev1.PodList]
	ConfigMaps(namespace string) Resource[*corev1.ConfigMap, *corev1.ConfigMapList]
	Events(namespace string) Resource[*corev1.Event, *corev1.EventList]
	Leases(namespace string) Resource[*coordinationv1.Lease, *coordinationv1.LeaseList]
	DaemonSets(namespace string) Resource[*appsv1.DaemonSet, *appsv1.DaemonSetList]

	Policies() Lister[*admissionv1.ValidatingAdmissionPolicyList]
	PolicyBindings() Lister[*admissionv1.ValidatingAdmissionPolicyBindingList]

	TokenReviews() Creator[*authenticationv1.TokenReview]
	SubjectAccessReviews() Creator[*authorizationv1.SubjectAccessReview]
	SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview]
}

// Creator creates objects of one resource.
type Creator[T runtime.Object] interface {
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
}

// Lister lists objects of one resource.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
}

// Resource reads and writes the objects of one resource in one namespace. Its methods are those of
// client-go's typed clients, and return the same errors.
type Resource[T, L runtime.Object] interface {
	Creator[T]
	Lister[L]
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, o metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// Client implements [Interface] over one HTTP client. The groups of the API share one rate limit.
type Client struct {
	core, coordination, apps, admission, authentication, authorization rest.Interface
}

var _ Interface = (*Client)(nil)

// New returns a client, and makes no request. The configuration's rate limit holds for all requests
// of the client. Returns an error if the address of the server or its credentials are malformed.
func New(config *rest.Config, connection *http.Client) (*Client, error) {
	shared := *config
	if shared.RateLimiter == nil && shared.QPS > 0 {
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, shared.Burst)
	}
	c := &Client{}
	for _, group := range []struct {
		client  *rest.Interface
		version schema.GroupVersion
		path    string
	}{
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.coordination, coordinationv1.SchemeGroupVersion, "/apis"},
		{&c.apps, appsv1.SchemeGroupVersion, "/apis"},
		{&c.admission, admissionv1.SchemeGroupVersion, "/apis"},
		{&c.authentication, authenticationv1.SchemeGroupVersion, "/apis"},
		{&c.authorization, authorizationv1.SchemeGroupVersion, "/apis"},
	} {
		own := shared
		own.GroupVersion, own.APIPath = &group.version, group.path
		own.NegotiatedSerializer = codecs.WithoutConversion()
		if own.UserAgent == "" {
			own.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		client, err := rest.RESTClientForConfigAndClient(&own, connection)
		if err != nil {
			return nil, fmt.Errorf("prepare a client of the API group %s: %w", group.version, err)
		}
		*group.client = client
	}
	return c, nil
}

// Core implements Interface.
func (c *Client) Core() rest.Interface { return c.core }

// Coordination implements Interface.
func (c *Client) Coordination() rest.Interface { return c.coordination }

// Nodes implements Interface.
func (c *Client) Nodes() Resource[*corev1.Node, *corev1.NodeList] {
	return newResource[corev1.Node, corev1.NodeList]("nodes", c.core, "")
}

// Pods implements Interface.
func (c *Client) Pods(namespace string) Resource[*corev1.Pod, *corev1.PodList] {
	return newResource[corev1.Pod, corev1.PodList]("pods", c.core, namespace)
}

// ConfigMaps implements Interface.
func (c *Client) ConfigMaps(namespace string) Resource[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return newResource[corev1.ConfigMap, corev1.ConfigMapList]("configmaps", c.core, namespace)
}

// Events implements Interface.
func (c *Client) Events(namespace string) Resource[*corev1.Event, *corev1.EventList] {
	return newResource[corev1.Event, corev1.EventList]("events", c.core, namespace)
}

// Leases implements Interface.
func (c *Client) Leases(namespace string) Resource[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return newResource[coordinationv1.Lease, coordinationv1.LeaseList]("leases", c.coordination, namespace)
}

// DaemonSets implements Interface.
func (c *Client) DaemonSets(namespace string) Resource[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return newResource[appsv1.DaemonSet, appsv1.DaemonSetList]("daemonsets", c.apps, namespace)
}

// Policies implements Interface.
func (c *Client) Policies() Lister[*admissionv1.ValidatingAdmissionPolicyList] {
	return newResource[admissionv1.ValidatingAdmissionPolicy, admissionv1.ValidatingAdmissionPolicyList]("validatingadmissionpolicies", c.admission, "")
}

// PolicyBindings implements Interface.
func (c *Client) PolicyBindings() Lister[*admissionv1.ValidatingAdmissionPolicyBindingList] {
	return newResource[admissionv1.ValidatingAdmissionPolicyBinding, admissionv1.ValidatingAdmissionPolicyBindingList]("validatingadmissionpolicybindings", c.admission, "")
}

// TokenReviews implements Interface.
func (c *Client) TokenReviews() Creator[*authenticationv1.TokenReview] {
	return creator[authenticationv1.TokenReview, *authenticationv1.TokenReview]{"tokenreviews", c.authentication, ""}
}

// SubjectAccessReviews implements Interface.
func (c *Client) SubjectAccessReviews() Creator[*authorizationv1.SubjectAccessReview] {
	return creator[authorizationv1.SubjectAccessReview, *authorizationv1.SubjectAccessReview]{"subjectaccessreviews", c.authorization, ""}
}

// SelfSubjectAccessReviews implements Interface.
func (c *Client) SelfSubjectAccessReviews() Creator[*authorizationv1.SelfSubjectAccessReview] {
	return creator[authorizationv1.SelfSubjectAccessReview, *authorizationv1.SelfSubjectAccessReview]{"selfsubjectaccessreviews", c.authorization, ""}
}
