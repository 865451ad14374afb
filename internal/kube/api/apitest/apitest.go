// Package apitest adapts client-go's clientset, or its fake, to an [api.Interface]. Requests and
// errors are those of the clientset.
package apitest

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// From returns the clientset as an [api.Interface].
func From(c kubernetes.Interface) api.Interface { return clientset{c} }

type clientset struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported reports whether watches cannot begin with a list, as those of a
// fake. client-go's reflectors detect the method by its name.
func (c clientset) IsWatchListSemanticsUnSupported() bool {
	client, is := c.Interface.(interface{ IsWatchListSemanticsUnSupported() bool })
	return is && client.IsWatchListSemanticsUnSupported()
}

func (c clientset) Core() rest.Interface         { return c.CoreV1().RESTClient() }
func (c clientset) Coordination() rest.Interface { return c.CoordinationV1().RESTClient() }

func (c clientset) Nodes() api.Resource[*corev1.Node, *corev1.NodeList] { return c.CoreV1().Nodes() }

func (c clientset) Pods(namespace string) api.Resource[*corev1.Pod, *corev1.PodList] {
	return c.CoreV1().Pods(namespace)
}

func (c clientset) ConfigMaps(namespace string) api.Resource[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return c.CoreV1().ConfigMaps(namespace)
}

func (c clientset) Events(namespace string) api.Resource[*corev1.Event, *corev1.EventList] {
	return c.CoreV1().Events(namespace)
}

func (c clientset) Leases(namespace string) api.Resource[*coordinationv1.Lease, *coordinationv1.LeaseList] {
	return c.CoordinationV1().Leases(namespace)
}

func (c clientset) DaemonSets(namespace string) api.Resource[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return c.AppsV1().DaemonSets(namespace)
}

func (c clientset) Policies() api.Lister[*admissionv1.ValidatingAdmissionPolicyList] {
	return c.AdmissionregistrationV1().ValidatingAdmissionPolicies()
}

func (c clientset) PolicyBindings() api.Lister[*admissionv1.ValidatingAdmissionPolicyBindingList] {
	return c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
}

func (c clientset) TokenReviews() api.Creator[*authenticationv1.TokenReview] {
	return c.AuthenticationV1().TokenReviews()
}

func (c clientset) SubjectAccessReviews() api.Creator[*authorizationv1.SubjectAccessReview] {
	return c.AuthorizationV1().SubjectAccessReviews()
}

func (c clientset) SelfSubjectAccessReviews() api.Creator[*authorizationv1.SelfSubjectAccessReview] {
	return c.AuthorizationV1().SelfSubjectAccessReviews()
}
