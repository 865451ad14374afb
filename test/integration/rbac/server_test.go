package rbac_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// server is an API server with its RBAC authorizer, and its clients.
type server struct {
	admin   kubernetes.Interface
	objects dynamic.Interface
	subject account // the account under test
}

func newServer(t *testing.T, admin *rest.Config, subject account) *server {
	t.Helper()
	admin = rest.CopyConfig(admin)
	admin.QPS = -1 // hundreds of requests; the server has its own limits
	s := &server{subject: subject}
	var err error
	if s.admin, err = kubernetes.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	if s.objects, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	return s
}

// resources are the kinds in the files.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":          {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// apply applies a file like kubectl and waits until its rights are effective: the authorizer
// learns of roles with a delay.
func (s *server) apply(t *testing.T, file string) {
	t.Helper()
	for _, text := range texts(t, file) {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		resource, known := resources[o.GetKind()]
		if !known {
			t.Fatalf("%s: unsupported kind %s", file, o.GetKind())
		}
		client := s.objects.Resource(resource).Namespace(o.GetNamespace())
		if _, err := client.Apply(t.Context(), o.GetName(), &o, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
			t.Fatalf("%s: apply %s %s: %v", file, o.GetKind(), o.GetName(), err)
		}
	}
	for _, r := range contract {
		if r.file != file {
			continue
		}
		for _, verb := range r.eachVerb() {
			err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
				return s.may(ctx, r, verb)
			})
			if err != nil {
				t.Errorf("with %s %s may not %s %s in %q: %v", file, s.subject, verb, r.resource, r.namespace, err)
			}
		}
	}
}

// may queries the authorizer for a right of the account.
func (s *server) may(ctx context.Context, r right, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(r.resource, "/")
	resource, name, _ := strings.Cut(strings.TrimSuffix(resource, "]"), "[")
	review, err := s.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + namespace + ":" + string(s.subject),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: r.namespace, Verb: verb, Group: r.group, Resource: resource, Subresource: subresource, Name: name,
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review whether %s may %s %s: %w", s.subject, verb, r.resource, err)
	}
	return review.Status.Allowed, nil
}

func (s *server) expectDenied(t *testing.T, rights []right, with string) {
	t.Helper()
	for _, r := range rights {
		for _, verb := range r.eachVerb() {
			allowed, err := s.may(t.Context(), r, verb)
			if err != nil {
				t.Fatal(err)
			}
			if allowed {
				t.Errorf("with %s %s may %s %s of group %q in %q", with, s.subject, verb, r.resource, r.group, r.namespace)
			}
		}
	}
}

// TestAuthorizer_GrantsOnlyContract applies the files one after the other and
// checks all rights each time.
func TestAuthorizer_GrantsOnlyContract(t *testing.T) {
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	s := newServer(t, c.Admin(), theAgent)
	s.expectDenied(t, ofAccount(theAgent), "nothing")
	s.apply(t, agentFile)
	agent := as(t, c, theAgent)
	s.expectRules(t, agent, []string{agentFile})
	s.expectDenied(t, forbidden[theAgent], agentFile)
	t.Run("requests", func(t *testing.T) { s.tryRequests(t, agent) })

	applied := []string{agentFile}
	for _, file := range options() {
		s.expectDenied(t, slices.DeleteFunc(ofAccount(theAgent), func(r right) bool { return slices.Contains(applied, r.file) }), strings.Join(applied, ", "))
		s.apply(t, file)
		applied = append(applied, file)
		s.expectRules(t, agent, applied)
	}
	s.expectDenied(t, forbidden[theAgent], "all files")

	s = newServer(t, c.Admin(), theController)
	s.expectDenied(t, ofAccount(theController), "the agent's files")
	s.apply(t, controllerFile)
	s.expectRules(t, as(t, c, theController), []string{controllerFile})
	s.expectDenied(t, forbidden[theController], controllerFile)
}

// as returns a client with the account's own token.
func as(t *testing.T, c *cluster.Cluster, subject account) kubernetes.Interface {
	t.Helper()
	token, err := c.Token(t.Context(), namespace, string(subject))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.Bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// expectRules compares the server's rules of an account with the contract. Every account may
// review its own rights.
func (s *server) expectRules(t *testing.T, client kubernetes.Interface, applied []string) {
	t.Helper()
	for _, place := range []string{namespace, evictions, "kube-node-lease", "default"} {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: place}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Incomplete {
			t.Errorf("the server can not list all rules: %s", review.Status.EvaluationError)
		}
		var got []right
		for _, rule := range review.Status.ResourceRules {
			for _, group := range rule.APIGroups {
				for _, resource := range named(rule.Resources, rule.ResourceNames) {
					// Every service account reviews its own rights and, since 1.37, reads trust
					// bundles.
					if !strings.HasPrefix(resource, "self") && resource != "clustertrustbundles" {
						got = append(got, right{"", "", group, resource, strings.Join(rule.Verbs, ", ")})
					}
				}
			}
		}
		var want []right
		for _, r := range contract {
			if slices.Contains(applied, r.file) && (r.namespace == "" || r.namespace == place) {
				r.namespace = ""
				want = append(want, r)
			}
		}
		if diff := cmp.Diff(lines(want, ""), lines(got, "")); diff != "" {
			t.Errorf("with %v, rules in %s (-contract +server):\n%s", applied, place, diff)
		}
	}
}

// tryRequests makes the required and the forbidden requests with the agent's own token.
func (s *server) tryRequests(t *testing.T, agent kubernetes.Interface) {
	ctx := t.Context()
	victim := s.pod(t)
	pods, core := agent.CoreV1().Pods(namespace), agent.CoreV1()
	failed := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Failed","reason":"Evicted"}}`, victim.UID)
	for _, c := range []struct {
		what    string
		allowed bool
		try     func() error
	}{
		{"list the pods of its node", true, func() error {
			_, err := core.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + victim.Spec.NodeName})
			return err
		}},
		{"mark a pod evicted", true, func() error {
			_, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, failed, metav1.PatchOptions{}, "status")
			return err
		}},
		{"write an event", true, func() error {
			_, err := core.Events(namespace).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "evicted-"},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: victim.Name, UID: victim.UID}, Type: "Warning", Reason: "Evicted"}, metav1.CreateOptions{})
			return err
		}},
		{"change a pod's image", false, func() error {
			_, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"app","image":"other"}]}}`), metav1.PatchOptions{})
			return err
		}},
		{"label a pod", false, func() error {
			_, err := pods.Patch(ctx, victim.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		}},
		{"delete a pod", false, func() error { return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{}) }},
		{"read a Secret", false, func() error {
			_, err := core.Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		}},
		{"create its own token", false, func() error {
			_, err := core.ServiceAccounts(namespace).CreateToken(ctx, string(theAgent), &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		}},
	} {
		err := c.try()
		if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: want allowed %t, but the server answered: %v", c.what, c.allowed, err)
		}
	}
}

// pod creates a pod; it never runs.
func (s *server) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	p, err := s.admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "victim"},
		Spec: corev1.PodSpec{ServiceAccountName: string(theAgent), NodeName: "node",
			Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
