package rbac_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// writing is one write with the server's answer.
type writing struct {
	right right // with one verb and without a file
	code  int
	body  string // of the answer
}

func (w *writing) taken() bool { return w.code < http.StatusMultipleChoices }

// recorder records a client's writes.
type recorder struct {
	inner   http.RoundTripper
	mu      sync.Mutex
	seen    []writing
	changed chan struct{} // one slot: signals new writings
}

// listen creates a client with recorded writes.
func listen(t *testing.T, config *rest.Config) (kubernetes.Interface, *recorder) {
	t.Helper()
	r := &recorder{changed: make(chan struct{}, 1)}
	config = rest.CopyConfig(config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		r.inner = inner
		return r
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, r
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// RoundTrip forwards a request.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.inner.RoundTrip(request)
	verb, writes := verbs[request.Method]
	if err != nil || !writes {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	r.seen = append(r.seen, writing{of(request.URL.Path, verb), answer.StatusCode, string(body)})
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	return answer, nil
}

// of returns the right that a request requires.
func of(path, verb string) right {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	r := right{verbs: verb}
	if parts[0] == "apis" {
		r.group = parts[1]
		parts = parts[1:]
	}
	parts = parts[2:] // also the version
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.resource = parts[0]
	if len(parts) > 2 {
		r.resource += "/" + parts[2]
	}
	return r
}

// after returns the writings after the first n.
func (r *recorder) after(n int) []writing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[n:len(r.seen):len(r.seen)]
}
