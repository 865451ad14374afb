package chart_test

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// access is a request of an account, and whether it may make it. An empty namespace is that of the release.
type access struct {
	verb, group, resource, namespace, name string
	allowed                                bool
}

const everyNamespace = "*"

// hookAccess are the rights of the Jobs of hooks. Each has those that its command needs, and lacks broader
// ones, of use to a thief of its token.
var hookAccess = map[string][]access{
	"plimsoll-cleanup": { // plimsoll cleanup --all
		{"patch", "", "configmaps", "", "plimsoll-arming", true},
		{"create", "", "configmaps", "", "", true},
		{"list", "coordination.k8s.io", "leases", "", "", true},
		{"watch", "coordination.k8s.io", "leases", "", "", true},
		{"patch", "", "configmaps", "", "plimsoll-agent", false},
		{"get", "", "configmaps", "", "", false},
		{"update", "coordination.k8s.io", "leases", "", "", false},
		{"get", "", "secrets", "", "", false},
		{"list", "", "pods", "", "", false},
		{"patch", "", "nodes", "", "", false},
	},
	"plimsoll-test": { // plimsoll doctor --cluster
		{"list", "", "nodes", everyNamespace, "", true},
		{"list", "coordination.k8s.io", "leases", "", "", true},
		{"get", "coordination.k8s.io", "leases", "", "plimsoll-controller", true},
		{"get", "coordination.k8s.io", "leases", "kube-system", "kube-controller-manager", true},
		{"list", "", "pods", "", "", true},
		{"list", "", "pods", "kube-system", "", true},
		{"list", "admissionregistration.k8s.io", "validatingadmissionpolicies", everyNamespace, "", true},
		{"list", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", everyNamespace, "", true},
		{"list", "cluster.x-k8s.io", "machinehealthchecks", everyNamespace, "", true},
		{"list", "machine.openshift.io", "machinehealthchecks", everyNamespace, "", true},
		{"list", "remediation.medik8s.io", "nodehealthchecks", everyNamespace, "", true},
		{"patch", "", "nodes", everyNamespace, "", false},
		{"list", "", "pods", everyNamespace, "", false},
		{"list", "", "pods", "default", "", false},
		{"get", "", "secrets", "", "", false},
		{"list", "coordination.k8s.io", "leases", "kube-system", "", false},
		{"patch", "", "configmaps", "", "plimsoll-arming", false},
	},
}

// mayRun checks the rights of the account of a hook's Job.
func (s *server) mayRun(ctx context.Context, account string) error {
	for _, c := range hookAccess[account] {
		place := or(c.namespace, namespace)
		if place == everyNamespace {
			place = ""
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: place, Verb: c.verb, Group: c.group, Resource: c.resource, Name: c.name},
		}}
		answer, err := s.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if answer.Status.Allowed != c.allowed {
			return fmt.Errorf("%s may %s %s %s in %q: %v, want %v", account, c.verb, c.resource, c.name, place, answer.Status.Allowed, c.allowed)
		}
	}
	return nil
}
