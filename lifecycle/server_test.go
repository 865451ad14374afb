package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// object is an object of the API.
type object interface {
	runtime.Object
	metav1.Object
}

// server behaves like an API server for the requests of this package. It has no socket, so it
// runs in virtual time too. The behaviour of a real one is shown in test/harness/cluster.
type server struct {
	mu       sync.Mutex
	version  int
	objects  map[string]map[string]object // by kind and namespace/name
	watchers map[*stream]bool
	requests []string // verb and path of each request except lists and watches
	events   []*corev1.Event
	// refuses, if set, returns the reason why a pod may not be evicted.
	refuses func(pod *corev1.Pod) error
	// fault, if set, may answer instead; it is called before each request.
	fault func(r *http.Request) (*http.Response, error)
	// listsOnly disables streamed lists, as in servers before 1.34.
	listsOnly bool
}

var kinds = map[string]func() object{
	"nodes":  func() object { return &corev1.Node{} },
	"pods":   func() object { return &corev1.Pod{} },
	"leases": func() object { return &coordinationv1.Lease{} },
}

var versions = map[string]schema.GroupVersionKind{
	"nodes":  corev1.SchemeGroupVersion.WithKind("Node"),
	"pods":   corev1.SchemeGroupVersion.WithKind("Pod"),
	"leases": coordinationv1.SchemeGroupVersion.WithKind("Lease"),
}

func newServer() *server {
	s := &server{objects: map[string]map[string]object{}, watchers: map[*stream]bool{}}
	for kind := range kinds {
		s.objects[kind] = map[string]object{}
	}
	return s
}

// testConfig uses JSON, the only encoding of the server.
func testConfig() *rest.Config {
	return &rest.Config{Host: "http://api.test", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

func (s *server) connect(t *testing.T) api.Interface {
	t.Helper()
	client, err := api.New(testConfig(), &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// address is the subject of a request.
type address struct{ kind, namespace, name, part string }

func (a address) key() string { return a.namespace + "/" + a.name }

// addressOf parses /api/v1 or /apis/GROUP/v1, then [namespaces/NS/]KIND[/NAME[/PART]].
func addressOf(path string) (a address) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	parts = parts[2:]
	if parts[0] == "v1" {
		parts = parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		a.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&a.kind, &a.name, &a.part} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return a
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if answer, err := fault(r); answer != nil || err != nil {
			return answer, err
		}
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := addressOf(r.URL.Path)
	switch {
	case r.Method == http.MethodGet && a.name == "" && r.URL.Query().Get("watch") != "":
		return s.watch(r, a), nil
	case r.Method == http.MethodGet && a.name == "":
		return s.list(r, a), nil
	}
	s.requests = append(s.requests, strings.TrimSuffix(r.Method+" "+strings.Trim(a.kind+"/"+a.name+"/"+a.part, "/"), "/"))
	return s.serve(r, a, body), nil
}

func (s *server) serve(r *http.Request, a address, body []byte) *http.Response {
	if r.Method == http.MethodPost && a.name == "" {
		return s.create(a, body)
	}
	known := s.objects[a.kind][a.key()]
	if known == nil {
		return failure(apierrors.NewNotFound(schema.GroupResource{Resource: a.kind}, a.name))
	}
	switch {
	case r.Method == http.MethodGet:
		return reply(http.StatusOK, known)
	case r.Method == http.MethodPatch:
		return s.patch(a, known, types.PatchType(r.Header.Get("Content-Type")), body)
	case r.Method == http.MethodPut:
		return s.update(a, known, body)
	case r.Method == http.MethodDelete:
		return s.delete(a, known, body)
	case a.part == "eviction":
		return s.evict(a, known.(*corev1.Pod), body)
	}
	return failure(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: a.kind}, r.Method))
}

func (s *server) create(a address, body []byte) *http.Response {
	if a.kind == "events" {
		e := &corev1.Event{}
		if err := json.Unmarshal(body, e); err != nil {
			return failure(apierrors.NewBadRequest(err.Error()))
		}
		s.events = append(s.events, e)
		return reply(http.StatusCreated, e)
	}
	o := kinds[a.kind]()
	if err := json.Unmarshal(body, o); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if s.objects[a.kind][o.GetNamespace()+"/"+o.GetName()] != nil {
		return failure(apierrors.NewAlreadyExists(schema.GroupResource{Resource: a.kind}, o.GetName()))
	}
	s.store(a.kind, o)
	return reply(http.StatusCreated, o)
}

func conflict(a address, why string) *http.Response {
	return failure(apierrors.NewConflict(schema.GroupResource{Resource: a.kind}, a.name, errors.New(why)))
}

func (s *server) update(a address, known object, body []byte) *http.Response {
	o := kinds[a.kind]()
	if err := json.Unmarshal(body, o); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if v := o.GetResourceVersion(); v != "" && v != known.GetResourceVersion() {
		return conflict(a, "the object has been modified")
	}
	s.store(a.kind, o)
	return reply(http.StatusOK, o)
}

func (s *server) patch(a address, known object, kind types.PatchType, body []byte) *http.Response {
	var bound struct{ Metadata precondition }
	if err := json.Unmarshal(body, &bound); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if v := bound.Metadata.ResourceVersion; v != "" && v != known.GetResourceVersion() {
		return conflict(a, "the object has been modified")
	}
	if uid := bound.Metadata.UID; uid != "" && uid != string(known.GetUID()) {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: a.kind}, a.name, nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid"}}
		return failure(err)
	}
	old, _ := json.Marshal(known)
	now := kinds[a.kind]()
	var merged []byte
	var err error
	switch kind {
	case types.StrategicMergePatchType:
		merged, err = strategicpatch.StrategicMergePatch(old, body, now)
	case types.MergePatchType:
		merged, err = mergePatch(old, body)
	default:
		return failure(apierrors.NewBadRequest("not a patch: " + string(kind)))
	}
	if err == nil {
		err = json.Unmarshal(merged, now)
	}
	if err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	s.store(a.kind, now)
	return reply(http.StatusOK, now)
}

// mergePatch applies a patch by RFC 7386.
func mergePatch(old, patch []byte) ([]byte, error) {
	var target, change map[string]any
	if err := errors.Join(json.Unmarshal(old, &target), json.Unmarshal(patch, &change)); err != nil {
		return nil, err
	}
	return json.Marshal(merge(target, change))
}

func merge(target, change map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for key, value := range change {
		switch v := value.(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			inner, _ := target[key].(map[string]any)
			target[key] = merge(inner, v)
		default:
			target[key] = v
		}
	}
	return target
}

func (s *server) delete(a address, known object, body []byte) *http.Response {
	var o metav1.DeleteOptions
	if err := json.Unmarshal(body, &o); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != known.GetUID() {
		return conflict(a, "the UID in the precondition does not match")
	}
	if p := o.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != known.GetResourceVersion() {
		return conflict(a, "the version in the precondition does not match")
	}
	s.remove(a.kind, known)
	return reply(http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
}

func (s *server) evict(a address, pod *corev1.Pod, body []byte) *http.Response {
	e := &policyv1.Eviction{}
	if err := json.Unmarshal(body, e); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if *e.DeleteOptions.Preconditions.UID != pod.UID {
		return conflict(a, "the UID in the precondition does not match")
	}
	if s.refuses != nil {
		if err := s.refuses(pod); err != nil {
			return failure(err)
		}
	}
	s.remove("pods", pod)
	return reply(http.StatusCreated, &metav1.Status{Status: metav1.StatusSuccess})
}

// store stores an object in a new version and notifies watches. The caller holds mu.
func (s *server) store(kind string, o object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	o.GetObjectKind().SetGroupVersionKind(versions[kind])
	key := o.GetNamespace() + "/" + o.GetName()
	verb := "ADDED"
	if s.objects[kind][key] != nil {
		verb = "MODIFIED"
	}
	s.objects[kind][key] = o
	s.notify(kind, verb, o)
}

// remove removes an object and notifies watches. The caller holds mu.
func (s *server) remove(kind string, o object) {
	s.version++
	delete(s.objects[kind], o.GetNamespace()+"/"+o.GetName())
	last := o.DeepCopyObject().(object)
	last.SetResourceVersion(strconv.Itoa(s.version))
	s.notify(kind, "DELETED", last)
}

func failure(err error) *http.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		panic(err)
	}
	answer := status.Status()
	return reply(int(answer.Code), &answer)
}

func reply(code int, v any) *http.Response {
	if s, is := v.(*metav1.Status); is {
		s.Kind, s.APIVersion = "Status", "v1"
	}
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}
