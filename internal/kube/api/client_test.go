package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// recording is a server that records requests and refuses each of them.
type recording struct {
	mu       sync.Mutex
	requests []string
	body     string // of the last one
}

func (r *recording) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	form := ""
	r.body = string(body)
	if strings.HasPrefix(string(body), "k8s\x00") {
		form = " protobuf"
	}
	r.requests = append(r.requests, q.Method+" "+q.URL.RequestURI()+form)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
}

func TestClient_Requests(t *testing.T) {
	r := &recording{}
	server := httptest.NewServer(r)
	defer server.Close()
	c, err := api.New(&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	for want, request := range map[string]func(context.Context) error{
		"GET /api/v1/nodes/n?resourceVersion=0": func(ctx context.Context) error {
			_, err := c.Nodes().Get(ctx, "n", metav1.GetOptions{ResourceVersion: "0"})
			return err
		},
		"PATCH /api/v1/nodes/n/status?fieldManager=m": func(ctx context.Context) error {
			_, err := c.Nodes().Patch(ctx, "n", types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "m"}, "status")
			return err
		},
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn&limit=5": func(ctx context.Context) error {
			_, err := c.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n", Limit: 5})
			return err
		},
		"GET /api/v1/namespaces/a/configmaps?timeout=7s&timeoutSeconds=7&watch=true": func(ctx context.Context) error {
			seven := int64(7)
			_, err := c.ConfigMaps("a").Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seven})
			return err
		},
		"POST /api/v1/namespaces/a/events protobuf": func(ctx context.Context) error {
			_, err := c.Events("a").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		},
		"PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/l protobuf": func(ctx context.Context) error {
			_, err := c.Leases("a").Update(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}, metav1.UpdateOptions{})
			return err
		},
		"GET /apis/apps/v1/namespaces/a/daemonsets/d": func(ctx context.Context) error {
			_, err := c.DaemonSets("a").Get(ctx, "d", metav1.GetOptions{})
			return err
		},
		"GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": func(ctx context.Context) error {
			_, err := c.Policies().List(ctx, metav1.ListOptions{})
			return err
		},
		"GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": func(ctx context.Context) error {
			_, err := c.PolicyBindings().List(ctx, metav1.ListOptions{})
			return err
		},
		"POST /apis/authentication.k8s.io/v1/tokenreviews protobuf": func(ctx context.Context) error {
			_, err := c.TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
			return err
		},
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews protobuf": func(ctx context.Context) error {
			_, err := c.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews protobuf": func(ctx context.Context) error {
			_, err := c.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
	} {
		r.requests = nil
		if err := request(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want the server's refusal", want, err)
		}
		if len(r.requests) != 1 || r.requests[0] != want {
			t.Errorf("requested %q, want %q", r.requests, want)
		}
	}
}

// The preconditions of a deletion are in its body.
func TestClient_Deletion(t *testing.T) {
	r := &recording{}
	server := httptest.NewServer(r)
	defer server.Close()
	c, err := api.New(&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	uid, version := types.UID("uid-1"), "version-2"
	err = c.ConfigMaps("a").Delete(t.Context(), "m", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if want := "DELETE /api/v1/namespaces/a/configmaps/m protobuf"; !apierrors.IsForbidden(err) || len(r.requests) != 1 || r.requests[0] != want {
		t.Errorf("requested %q, %v, want %s", r.requests, err, want)
	}
	for _, part := range []string{"DeleteOptions", "uid-1", "version-2"} {
		if !strings.Contains(r.body, part) {
			t.Errorf("no %s in the body %q", part, r.body)
		}
	}
}

func TestNew_RejectsMalformedServer(t *testing.T) {
	if _, err := api.New(&rest.Config{Host: "http://a:b:c"}, http.DefaultClient); err == nil || !strings.Contains(err.Error(), "prepare a client of the API group") {
		t.Errorf("%v", err)
	}
}
