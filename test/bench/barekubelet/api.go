package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// object is a Kubernetes object.
type object = map[string]any

// maxBody bounds a request.
const maxBody = 4 << 20

// api is an API server for one kubelet. It stores what is written, has no defaults and no validation, and
// ignores selectors: every pod is of the one node. Events are accepted and dropped.
type api struct {
	mu      sync.Mutex
	version int
	objects map[string]object // by key
	changes []change          // of objects that can be watched
	changed chan struct{}     // closed at the next change
}

type change struct {
	version  int
	resource string
	text     []byte // a line of a watch
}

func newAPI() *api { return &api{objects: map[string]object{}, changed: make(chan struct{})} }

// place is what the path of a request names.
type place struct{ resource, namespace, name, subresource string }

func (p place) key() string { return p.resource + "/" + p.namespace + "/" + p.name }

// parse parses /api/v1/… or /apis/GROUP/VERSION/….
func parse(path string) (p place, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return p, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&p.resource, &p.name, &p.subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return p, true
}

// add stores a new object.
func (a *api) add(resource string, o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	metadata := metadataOf(o)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	a.store(place{resource: resource, namespace: namespace, name: name}, o, "ADDED")
}

// store stores an object, and reports the change to watches. The caller holds the lock.
func (a *api) store(p place, o object, kind string) {
	a.version++
	metadata := metadataOf(o)
	metadata["resourceVersion"] = strconv.Itoa(a.version)
	if metadata["uid"] == nil {
		metadata["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", a.version)
	}
	a.objects[p.key()] = o
	if p.resource != "pods" && p.resource != "nodes" {
		return
	}
	text, err := json.Marshal(object{"type": kind, "object": o})
	if err != nil {
		return // it came from JSON
	}
	a.changes = append(a.changes, change{a.version, p.resource, append(text, '\n')})
	close(a.changed)
	a.changed = make(chan struct{})
}

func metadataOf(o object) object {
	m, ok := o["metadata"].(object)
	if !ok {
		m = object{}
		o["metadata"] = m
	}
	return m
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := parse(r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, "NotFound", r.URL.Path)
		return
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && (q.Get("watch") == "true" || q.Get("watch") == "1"):
		a.watch(w, r, p, q.Get("resourceVersion"), q.Get("sendInitialEvents") == "true")
	case r.Method == http.MethodGet && p.name == "":
		a.list(w, p)
	case r.Method == http.MethodGet:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answer(w, p, http.StatusOK)
	default:
		a.write(w, r, p)
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	respond(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message})
}

func respond(w http.ResponseWriter, code int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o) // the client has gone
}

// answer answers with a stored object. The caller holds the lock.
func (a *api) answer(w http.ResponseWriter, p place, code int) {
	if o, found := a.objects[p.key()]; found {
		respond(w, code, o)
		return
	}
	refuse(w, http.StatusNotFound, "NotFound", p.key()+" not found")
}

// list answers with the objects of a resource. A list of pods names its type: the kubelet decodes it without
// knowing what it is.
func (a *api) list(w http.ResponseWriter, p place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := []any{}
	for key, o := range a.objects {
		if strings.HasPrefix(key, p.resource+"/") {
			items = append(items, o)
		}
	}
	answer := object{"metadata": object{"resourceVersion": strconv.Itoa(a.version)}, "items": items}
	if p.resource == "pods" {
		answer["apiVersion"], answer["kind"] = "v1", "PodList"
	}
	respond(w, http.StatusOK, answer)
}

// watch streams the changes after a version. A client that wants the initial state in the stream is refused:
// it lists then.
func (a *api) watch(w http.ResponseWriter, r *http.Request, p place, from string, initial bool) {
	since, err := strconv.Atoi(from)
	if initial || err != nil && from != "" {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", "a watch begins at a version: list first")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(w)
	for next := 0; ; {
		a.mu.Lock()
		changes, changed := a.changes[next:], a.changed
		next = len(a.changes)
		a.mu.Unlock()
		for _, c := range changes {
			if c.resource != p.resource || c.version <= since {
				continue
			}
			if _, err := w.Write(c.text); err != nil {
				return
			}
		}
		if flusher.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// write performs POST, PUT, PATCH and DELETE.
func (a *api) write(w http.ResponseWriter, r *http.Request, p place) {
	var body object
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil && r.Method != http.MethodDelete {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, exists := a.objects[p.key()]
	switch r.Method {
	case http.MethodPost:
		if p.resource == "events" {
			respond(w, http.StatusCreated, body)
			return
		}
		p.name, _ = metadataOf(body)["name"].(string)
		if a.objects[p.key()] != nil {
			refuse(w, http.StatusConflict, "AlreadyExists", p.key()+" already exists")
			return
		}
		a.store(p, body, "ADDED")
		a.answer(w, p, http.StatusCreated)
	case http.MethodPut:
		a.store(p, body, "MODIFIED")
		a.answer(w, p, http.StatusOK)
	case http.MethodPatch:
		if exists {
			merged, _ := merge(old, body).(object)
			a.store(p, merged, "MODIFIED")
		}
		a.answer(w, p, http.StatusOK)
	case http.MethodDelete:
		if exists {
			delete(a.objects, p.key())
			a.store(p, old, "DELETED")
			delete(a.objects, p.key())
		}
		respond(w, http.StatusOK, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}
