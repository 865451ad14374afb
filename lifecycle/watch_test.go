package lifecycle

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stream is a watch. The server never waits for its reader.
type stream struct {
	address
	bound bool // only pods on nodes
	out   *io.PipeWriter
	mu    sync.Mutex
	lines [][]byte
	some  chan struct{}
}

func (w *stream) put(kind string, object any) {
	line, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, append(line, '\n'))
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// run writes until the reader or the request ends.
func (w *stream) run(r *http.Request, ended func()) {
	defer ended()
	for {
		select {
		case <-r.Context().Done():
			w.out.CloseWithError(r.Context().Err())
			return
		case _, open := <-w.some:
			w.mu.Lock()
			lines := w.lines
			w.lines = nil
			w.mu.Unlock()
			for _, line := range lines {
				if _, err := w.out.Write(line); err != nil {
					return
				}
			}
			if !open {
				w.out.Close()
				return
			}
		}
	}
}

func (w *stream) wants(kind string, o object) bool {
	return w.kind == kind && (w.namespace == "" || w.namespace == o.GetNamespace()) && (!w.bound || isBound(o))
}

// notify sends an event to all matching watches. The caller holds mu.
func (s *server) notify(kind, verb string, o object) {
	for w := range s.watchers {
		if w.wants(kind, o) {
			w.put(verb, o.DeepCopyObject())
		}
	}
}

func (s *server) matching(r *http.Request, a address) []object {
	w := &stream{address: a, bound: strings.Contains(r.URL.Query().Get("fieldSelector"), "nodeName")}
	var all []object
	for _, o := range s.objects[a.kind] {
		if w.wants(a.kind, o) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return all
}

func (s *server) list(r *http.Request, a address) *http.Response {
	return reply(http.StatusOK, map[string]any{
		"metadata": metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}, "items": s.matching(r, a),
	})
}

func (s *server) watch(r *http.Request, a address) *http.Response {
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && s.listsOnly {
		return failure(apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	}
	if from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion")); !initial && from < s.version {
		return failure(apierrors.NewResourceExpired("the server keeps no history")) // so changes in between are listed
	}
	in, out := io.Pipe()
	w := &stream{address: a, out: out, some: make(chan struct{}, 1), bound: strings.Contains(r.URL.Query().Get("fieldSelector"), "nodeName")}
	if initial {
		for _, o := range s.matching(r, a) {
			w.put("ADDED", o)
		}
		w.put("BOOKMARK", s.bookmark(a))
	}
	s.watchers[w] = true
	go w.run(r, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: in}
}

func (s *server) bookmark(a address) object {
	mark := kinds[a.kind]()
	mark.GetObjectKind().SetGroupVersionKind(versions[a.kind])
	mark.SetResourceVersion(strconv.Itoa(s.version))
	mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return mark
}

// cut ends all watches, like a server that shuts down.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		delete(s.watchers, w)
		close(w.some)
	}
}
