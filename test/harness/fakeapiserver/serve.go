package fakeapiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// query is a parsed request.
type query struct {
	resource                     schema.GroupResource
	namespace, name, subresource string
	verb                         string
	version                      string
	initial                      bool // a watch with a bookmark at the end of the initial state
	marks                        bool // a watch that accepts bookmarks
	limit                        int
	next                         string
	want                         func(object) bool
}

// ServeHTTP implements http.Handler.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := accepted(r)
	if err := c.serve(w, r, f); err != nil {
		var known apierrors.APIStatus
		if !errors.As(err, &known) {
			known = apierrors.NewInternalError(err)
		}
		status := known.Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		_ = f.answer(w, int(status.Code), &status)
	}
}

func (c *Cluster) serve(w http.ResponseWriter, r *http.Request, f *format) error {
	q, err := parse(r)
	if err != nil {
		return err
	}
	c.count(q)
	if q.resource.Resource == "events" && q.verb == http.MethodPost {
		return c.echo(w, r, f)
	}
	s := c.stores[q.resource]
	if s == nil {
		return apierrors.NewNotFound(q.resource, q.name)
	}
	switch q.verb {
	case "WATCH":
		t := &stream{to: &wire{w, f}, store: s, want: q.want, from: q.version, initial: q.initial, marks: q.marks}
		begun, err := c.watch(r.Context(), t)
		if begun {
			err = hangUp(err)
		}
		return err
	case "LIST":
		return c.list(w, q, s, f)
	case http.MethodGet:
		c.mu.Lock()
		o := s.find(q.namespace, q.name)
		c.mu.Unlock()
		if o == nil {
			return apierrors.NewNotFound(q.resource, q.name)
		}
		return f.answer(w, http.StatusOK, o)
	}
	return c.write(w, r, q, s, f)
}

func (c *Cluster) count(q *query) {
	what := q.resource.Resource
	if q.subresource != "" {
		what += "/" + q.subresource
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[q.verb+" "+what]++
}

// parse reads /api/v1/… or /apis/GROUP/VERSION/… and the parameters.
func parse(r *http.Request) (*query, error) {
	q := &query{verb: r.Method}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		q.resource.Group, parts = parts[1], parts[3:]
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path)
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		q.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&q.resource.Resource, &q.name, &q.subresource} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	return q, q.parameters(r)
}

func (q *query) parameters(r *http.Request) error {
	v := r.URL.Query()
	q.version, q.next = v.Get("resourceVersion"), v.Get("continue")
	q.initial, q.marks = v.Get("sendInitialEvents") == "true", v.Get("allowWatchBookmarks") == "true"
	if watching := v.Get("watch"); watching == "true" || watching == "1" {
		q.verb = "WATCH"
	} else if q.verb == http.MethodGet && q.name == "" {
		q.verb = "LIST"
	}
	if text := v.Get("limit"); text != "" {
		var err error
		if q.limit, err = strconv.Atoi(text); err != nil {
			return apierrors.NewBadRequest("limit: " + err.Error())
		}
	}
	return q.choose(v.Get("fieldSelector"), v.Get("labelSelector"))
}

// choose parses selectors.
func (q *query) choose(fieldSelector, labelSelector string) error {
	byField, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return apierrors.NewBadRequest("fieldSelector: " + err.Error())
	}
	byLabel, err := labels.Parse(labelSelector)
	if err != nil {
		return apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	q.want = func(o object) bool {
		return (q.namespace == "" || q.namespace == o.GetNamespace()) &&
			(byLabel.Empty() || byLabel.Matches(labels.Set(o.GetLabels()))) && (byField.Empty() || byField.Matches(fieldsOf(o)))
	}
	return nil
}

// fieldsOf returns the selectable fields of an object.
func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if p, ok := o.(*corev1.Pod); ok {
		set["spec.nodeName"], set["status.phase"] = p.Spec.NodeName, string(p.Status.Phase)
	}
	return set
}

// list answers a list or a page of one. The continue token is a place.
func (c *Cluster) list(w http.ResponseWriter, q *query, s *store, f *format) error {
	place := 0
	if q.next != "" {
		var err error
		if place, err = strconv.Atoi(q.next); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("continue %q: use the token of the last page", q.next))
		}
	}
	c.mu.Lock()
	version := c.version
	var found []runtime.Object
	for ; place < s.places() && (q.limit == 0 || len(found) < q.limit); place++ {
		if o := s.in(place); o != nil && q.want(o) {
			found = append(found, o)
		}
	}
	next := ""
	if place < s.places() {
		next = strconv.Itoa(place)
	}
	c.mu.Unlock()
	l, err := s.list(found, strconv.FormatUint(version, 10), next)
	if err != nil {
		return err
	}
	return f.answer(w, http.StatusOK, l)
}
