package rbac_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

// reviews uses the agent's own token, under the policy, to review tokens of clients of
// /metrics: an invalid one, one without a right, and one with it.
func (y *env) reviews(t *testing.T) {
	clientset, err := kubernetes.NewForConfig(y.Bearer(token(t, y.admin, y.own.toPod())))
	if err != nil {
		t.Fatal(err)
	}
	review := client.Review(apitest.From(clientset))
	expect := func(what, token, path string, authenticated, allowed bool) {
		t.Helper()
		is, may, err := review(t.Context(), token, path)
		if err != nil || is != authenticated || may != allowed {
			t.Errorf("%s, %s: authenticated %t, allowed %t, %v; want %t, %t", what, path, is, may, err, authenticated, allowed)
		}
	}
	answer, err := y.admin.CoreV1().ServiceAccounts(victims).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reader := answer.Status.Token
	expect("invalid token", "made-up", "/metrics", false, false)
	expect("a pod's token", reader, "/metrics", true, false)
	for _, path := range []string{"/configz", "/explain", "/livez/verbose", "/readyz/verbose"} {
		expect("a pod's token", reader, path, true, false)
	}

	newServer(t, y.Admin(), theAgent).apply(t, readersFile)
	_, err = y.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "plimsoll-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: victims, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the binding holds", func() bool {
		_, may, err := review(t.Context(), reader, "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return may
	})
	expect("a reader's token", reader, "/explain", true, false)
}
