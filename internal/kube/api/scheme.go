package api

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Scheme has the types that Plimsoll encodes and decodes. A group's own function registers all of
// its types, and links their code.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for version, kinds := range map[schema.GroupVersion][]runtime.Object{
		corev1.SchemeGroupVersion: {
			&corev1.Node{}, &corev1.NodeList{}, &corev1.Pod{}, &corev1.PodList{},
			&corev1.ConfigMap{}, &corev1.ConfigMapList{}, &corev1.Event{}, &corev1.EventList{},
		},
		coordinationv1.SchemeGroupVersion:   {&coordinationv1.Lease{}, &coordinationv1.LeaseList{}},
		appsv1.SchemeGroupVersion:           {&appsv1.DaemonSet{}, &appsv1.DaemonSetList{}},
		policyv1.SchemeGroupVersion:         {&policyv1.Eviction{}},
		authenticationv1.SchemeGroupVersion: {&authenticationv1.TokenReview{}},
		authorizationv1.SchemeGroupVersion:  {&authorizationv1.SubjectAccessReview{}, &authorizationv1.SelfSubjectAccessReview{}},
		admissionv1.SchemeGroupVersion: {
			&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyList{},
			&admissionv1.ValidatingAdmissionPolicyBinding{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		},
	} {
		s.AddKnownTypes(version, kinds...)
		metav1.AddToGroupVersion(s, version)
	}
	return s
}()

// ParameterCodec encodes the options of requests in URLs.
var ParameterCodec = runtime.NewParameterCodec(Scheme)

var codecs = serializer.NewCodecFactory(Scheme)
