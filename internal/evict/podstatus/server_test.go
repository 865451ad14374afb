package podstatus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// server implements an API server for the few requests of this package. It has no socket, so that
// it works in virtual time. cluster_test.go shows the behaviour of a real one.
type server struct {
	mu      sync.Mutex
	version int
	pods    map[string]*corev1.Pod // by namespace/name
	events  map[string]*corev1.Event
	seen    []string // verb and path of each received request
	at      []time.Time
	// written are the applied status patches.
	written []patch
	// watch, if set, receives each status patch just before it is applied.
	watch func(patch)
	// fault, if set, is called before each request and may answer instead.
	fault func(r *http.Request, serve func() *http.Response) (*http.Response, error)
}

func newServer() *server {
	return &server{pods: map[string]*corev1.Pod{}, events: map[string]*corev1.Event{}}
}

func (s *server) connect(t *testing.T) api.Interface {
	t.Helper()
	client, err := api.New(&rest.Config{Host: "http://api.test", QPS: -1}, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"))
	s.at = append(s.at, time.Now())
	fault := s.fault
	s.mu.Unlock()
	serve := func() *http.Response {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.serve(r)
	}
	if fault != nil {
		if answer, err := fault(r, serve); answer != nil || err != nil {
			return answer, err
		}
	}
	return serve(), nil
}

func (s *server) serve(r *http.Request) *http.Response {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	what := r.Method + " " + strings.Join(append([]string{parts[1]}, parts[min(3, len(parts)):]...), "/")
	if what == "POST events" {
		return s.create(parts[0], body)
	}
	key := parts[0] + "/" + parts[2]
	pod := s.pods[key]
	if pod == nil {
		return failure(apierrors.NewNotFound(corev1.Resource("pods"), parts[2]))
	}
	switch what {
	case "GET pods":
		return reply(http.StatusOK, pod)
	case "PATCH pods/status":
		return s.patch(key, pod, r.Header.Get("Content-Type"), body)
	case "POST pods/eviction":
		return s.evict(key, pod, body)
	}
	return failure(apierrors.NewMethodNotSupported(corev1.Resource(what), r.Method))
}

func (s *server) patch(key string, pod *corev1.Pod, kind string, body []byte) *http.Response {
	var p patch
	if json.Unmarshal(body, &p) != nil || kind != string(types.StrategicMergePatchType) {
		return failure(apierrors.NewBadRequest("not a patch: " + kind))
	}
	switch {
	case p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != pod.ResourceVersion:
		return failure(apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errors.New("the object has been modified")))
	case p.Metadata.UID != string(pod.UID):
		return failure(wrongUID(pod.Name))
	}
	old, _ := json.Marshal(pod)
	merged, err := strategicpatch.StrategicMergePatch(old, body, corev1.Pod{})
	if err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	now := &corev1.Pod{}
	if err := json.Unmarshal(merged, now); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if s.watch != nil {
		s.watch(p)
	}
	s.written = append(s.written, p)
	s.put(now)
	return reply(http.StatusOK, now)
}

func wrongUID(name string) *apierrors.StatusError {
	err := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}}
	return err
}

func (s *server) create(namespace string, body []byte) *http.Response {
	e := &corev1.Event{}
	if err := json.Unmarshal(body, e); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	key := namespace + "/" + e.Name
	if s.events[key] != nil {
		return failure(apierrors.NewAlreadyExists(corev1.Resource("events"), e.Name))
	}
	s.events[key] = e
	return reply(http.StatusCreated, e)
}

func (s *server) evict(key string, pod *corev1.Pod, body []byte) *http.Response {
	e := &policyv1.Eviction{}
	if err := json.Unmarshal(body, e); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if uid := e.DeleteOptions.Preconditions.UID; *uid != pod.UID {
		return failure(apierrors.NewConflict(corev1.Resource("Pod"), pod.Name, errors.New("the UID in the precondition does not match")))
	}
	pod.DeletionGracePeriodSeconds = e.DeleteOptions.GracePeriodSeconds
	return reply(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess})
}

// put stores a pod in a new version.
func (s *server) put(pod *corev1.Pod) {
	s.version++
	pod.ResourceVersion = strconv.Itoa(s.version)
	s.pods[pod.Namespace+"/"+pod.Name] = pod
}

// with runs f while the server is locked.
func (s *server) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// broken sets the fault that answers all requests; nil removes it.
func (s *server) broken(fault func(*http.Request, func() *http.Response) (*http.Response, error)) {
	s.with(func() { s.fault = fault })
}

func (s *server) arrived() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *server) counts() (statuses, events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.written), len(s.events)
}

func reply(code int, v any) *http.Response {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	}
}

func failure(err *apierrors.StatusError) *http.Response {
	err.ErrStatus.APIVersion, err.ErrStatus.Kind = "v1", "Status"
	answer := reply(int(err.ErrStatus.Code), &err.ErrStatus)
	if d := err.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		answer.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return answer
}

type fault = func(*http.Request, func() *http.Response) (*http.Response, error)

// answering fails every request in the same way.
func answering(err *apierrors.StatusError) fault {
	return func(*http.Request, func() *http.Response) (*http.Response, error) { return failure(err), nil }
}

// only applies a fault to requests with a text in their verb and path.
func only(text string, f fault) fault {
	return func(r *http.Request, serve func() *http.Response) (*http.Response, error) {
		if !strings.Contains(r.Method+" "+r.URL.Path, text) {
			return nil, nil
		}
		return f(r, serve)
	}
}

var (
	refusedConnection fault = func(*http.Request, func() *http.Response) (*http.Response, error) {
		return nil, errors.New("dial tcp 192.0.2.1:6443: connect: connection refused")
	}
	hang fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	// lost serves the request and drops the answer.
	lost fault = func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
		serve()
		return nil, errors.New("read tcp 192.0.2.1:6443: connection reset by peer")
	}
	// balancer answers like a load balancer without a server.
	balancer fault = func(*http.Request, func() *http.Response) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}},
			Body: io.NopCloser(strings.NewReader("<h1>no such backend</h1>")),
		}, nil
	}
)

// harness is a Reporter, its server, and the contents of the store.
type harness struct {
	*server
	*Reporter
	t     *testing.T
	lines *logcapture.Book
	saved []PendingStatus
}

func newHarness(t *testing.T, options Options) *harness {
	h := &harness{server: newServer(), t: t, lines: &logcapture.Book{}}
	h.Reporter = New(h.connect(t), "node-1", h.lines.Logger(), func(d []PendingStatus) { h.saved = d }, options)
	return h
}

// run starts Run, and returns the function that ends it.
func (h *harness) run(previous []PendingStatus) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		h.Run(ctx, previous)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// decided has a fraction of a second, like real decisions.
var decided = time.Date(2026, 7, 1, 12, 0, 0, 123456789, time.UTC)

const evictionMessage = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 20Mi. "

func notice(name string) Notice {
	return Notice{
		UID: "0a0b0c0d-" + name, Namespace: "shop", Name: name, Cause: "memory.available", Message: evictionMessage,
		Annotations:      map[string]string{"starved_resource": "memory", "offending_containers": "c"},
		DisruptionTarget: true, Decided: decided, Killed: []string{"id-" + name}, ObservedGeneration: 3,
	}
}

// running returns the pod of a notice, with its status before the kill.
func running(n Notice) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name, UID: types.UID(n.UID), Generation: 3}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{runs("id-"+n.Name, n.Decided.Add(-time.Hour))}
	return pod
}

func runs(id string, since time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", ContainerID: "containerd://" + id,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(since.Truncate(time.Second))}}}
}

func (s *server) pod(name string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods["shop/"+name]; p != nil {
		return p.DeepCopy()
	}
	return nil
}
