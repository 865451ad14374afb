package client_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// server answers lists and watches of pods like an API server, and fails on request. A real server
// cannot send malformed responses.
type server struct {
	*httptest.Server
	streams bool // sends lists as events

	mu       sync.Mutex
	pods     []*corev1.Pod
	version  int
	history  map[int]metav1.WatchEvent // by version
	watchers map[chan metav1.WatchEvent]bool
	fail     http.HandlerFunc // handles the next requests
	failures int              // number of requests for fail
	requests int
	selector string // of the last request
}

func newServer(t *testing.T, streams bool) *server {
	s := &server{streams: streams, version: 10, history: map[int]metav1.WatchEvent{}, watchers: map[chan metav1.WatchEvent]bool{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests++
	if s.failures > 0 {
		s.failures--
		fail := s.fail
		s.mu.Unlock()
		fail(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.selector = r.URL.Query().Get("fieldSelector")
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	switch {
	case r.URL.Path != "/api/v1/pods":
		s.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Query().Get("watch") == "":
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
		for _, p := range s.pods {
			list.Items = append(list.Items, *p)
		}
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	case initial && !s.streams:
		s.mu.Unlock()
		status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)(w, r)
	default:
		events := make(chan metav1.WatchEvent, 1000)
		if initial {
			for _, p := range s.pods {
				events <- event("ADDED", p)
			}
			end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			events <- event("BOOKMARK", end)
		}
		from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		for v := from + 1; err == nil && v <= s.version; v++ {
			events <- s.history[v]
		}
		s.watchers[events] = true
		s.mu.Unlock()
		s.stream(w, r, events)
	}
}

func (s *server) stream(w http.ResponseWriter, r *http.Request, events chan metav1.WatchEvent) {
	defer func() {
		s.mu.Lock()
		delete(s.watchers, events)
		s.mu.Unlock()
	}()
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
			if e.Type == "ERROR" {
				return
			}
		}
	}
}

func event(kind string, object any) metav1.WatchEvent {
	if p, ok := object.(*corev1.Pod); ok {
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	e := metav1.WatchEvent{Type: kind}
	e.Object.Raw = raw
	return e
}

// set adds pods, or changes those of the same UID.
func (s *server) set(pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pods {
		s.version++
		p.ResourceVersion = strconv.Itoa(s.version)
		kind := "MODIFIED"
		if i := slices.IndexFunc(s.pods, func(q *corev1.Pod) bool { return p.UID == q.UID }); i >= 0 {
			s.pods[i] = p
		} else {
			s.pods = append(s.pods, p)
			kind = "ADDED"
		}
		s.record(event(kind, p))
	}
}

func (s *server) remove(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	i := slices.IndexFunc(s.pods, func(q *corev1.Pod) bool { return uid == q.UID })
	s.pods[i].ResourceVersion = strconv.Itoa(s.version)
	s.record(event("DELETED", s.pods[i]))
	s.pods = slices.Delete(s.pods, i, i+1)
}

// record adds an event to the history. The caller holds mu.
func (s *server) record(e metav1.WatchEvent) {
	s.history[s.version] = e
	s.broadcast(e)
}

// broadcast sends an event to all watchers. The caller holds mu.
func (s *server) broadcast(e metav1.WatchEvent) {
	for w := range s.watchers {
		w <- e
	}
}

// interrupt ends all watches with an expired history. The next requests fail, as many as times.
func (s *server) interrupt(times int, fail http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.failures = fail, times
	s.broadcast(event("ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: http.StatusGone, Reason: metav1.StatusReasonExpired}))
}

func (s *server) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

func (s *server) watched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

func (s *server) requestCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *server) selected() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.selector
}

// status returns a handler that refuses like an API server.
func status(code int, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason})
	}
}

// respond returns a handler for a response of status 200.
func respond(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
}

// kubeconfig writes a file with url and the server's certificate.
func (s *server) kubeconfig(t *testing.T, url string) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n",
		url, base64.StdEncoding.EncodeToString(ca))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect returns a connection to the server for the node n1, and its log.
func (s *server) connect(t *testing.T, url string) (*client.Connection, *logcapture.Book) {
	t.Helper()
	log := &logcapture.Book{}
	c, err := client.Connect(client.Options{Kubeconfig: s.kubeconfig(t, url), NodeName: "N1", Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// pod returns a pod of the node n1.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func names(active []signals.Pod) string {
	all := ""
	for i := range active {
		all += active[i].Name + " "
	}
	return strings.TrimSpace(all)
}

// eventually waits until ok returns true, while always returns no fault.
func eventually(t *testing.T, what string, ok func() bool, always ...func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !ok() {
		for _, a := range always {
			if fault := a(); fault != "" {
				t.Fatalf("waiting until %s: %s", what, fault)
			}
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited a minute until %s", what)
		}
	}
}
