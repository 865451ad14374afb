package fakeapiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxBody is the maximum size of a request body in bytes.
const maxBody = 3 << 20

// writes maps a method to the function that computes the next object from the current one (nil
// if there is none) and the request body.
var writes = map[string]func(q *query, s *store, present object, body []byte, mediaType string) (object, eventKind, error){
	http.MethodPut:    replace,
	http.MethodPatch:  patch,
	http.MethodDelete: remove,
	http.MethodPost:   create,
}

func (c *Cluster) write(w http.ResponseWriter, r *http.Request, q *query, s *store, f *format) error {
	if writes[q.verb] == nil {
		return apierrors.NewMethodNotSupported(q.resource, q.verb)
	}
	body, mediaType, err := read(r)
	if err != nil {
		return err
	}
	o, err := c.change(q, s, body, mediaType)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if q.verb == http.MethodPost {
		code = http.StatusCreated
	}
	return f.answer(w, code, o)
}

// change executes a write and returns the new state.
func (c *Cluster) change(q *query, s *store, body []byte, mediaType string) (object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var present object
	if q.name != "" {
		if present = s.find(q.namespace, q.name); present == nil {
			return nil, apierrors.NewNotFound(q.resource, q.name)
		}
	}
	o, kind, err := writes[q.verb](q, s, present, body, mediaType)
	if err != nil {
		return nil, err
	}
	if present != nil {
		if err := unlessChanged(q, present, o); err != nil {
			return nil, err
		}
	}
	o.GetObjectKind().SetGroupVersionKind(s.gv.WithKind(s.kind))
	c.put(s, o, kind)
	return o, nil
}

// unlessChanged rejects a write based on another state than the current one.
func unlessChanged(q *query, present, o object) error {
	if v := o.GetResourceVersion(); v != "" && v != present.GetResourceVersion() {
		return apierrors.NewConflict(q.resource, q.name, fmt.Errorf("written from version %s, present is %s", v, present.GetResourceVersion()))
	}
	if u := o.GetUID(); u != "" && u != present.GetUID() {
		return apierrors.NewConflict(q.resource, q.name, fmt.Errorf("written for UID %s, present is %s", u, present.GetUID()))
	}
	return nil
}

func read(r *http.Request) (body []byte, mediaType string, err error) {
	if body, err = io.ReadAll(io.LimitReader(r.Body, maxBody)); err != nil {
		return nil, "", apierrors.NewBadRequest("read the body: " + err.Error())
	}
	mediaType, _, err = mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && len(body) > 0 {
		return nil, "", apierrors.NewBadRequest("Content-Type: " + err.Error())
	}
	return body, mediaType, nil
}

// decode decodes an object of the shelf's kind in any supported format.
func (s *store) decode(body []byte) (object, error) {
	into, err := s.empty()
	if err != nil {
		return nil, err
	}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, into); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return into, nil
}

func replace(q *query, s *store, present object, body []byte, _ string) (object, eventKind, error) {
	o, err := s.decode(body)
	if err != nil || q.subresource != "status" {
		return o, modified, err
	}
	changed := present.DeepCopyObject().(object)
	changed.SetResourceVersion(o.GetResourceVersion())
	switch to := changed.(type) {
	case *corev1.Node:
		to.Status = o.(*corev1.Node).Status
	case *corev1.Pod:
		to.Status = o.(*corev1.Pod).Status
	default:
		return nil, "", apierrors.NewMethodNotSupported(q.resource, "PUT status")
	}
	return changed, modified, nil
}

func patch(q *query, s *store, present object, body []byte, mediaType string) (object, eventKind, error) {
	original, err := json.Marshal(present)
	if err != nil {
		return nil, "", err
	}
	var patched []byte
	switch types.PatchType(mediaType) {
	case types.StrategicMergePatchType:
		patched, err = strategicpatch.StrategicMergePatch(original, body, present)
	case types.MergePatchType:
		patched, err = mergePatch(original, body)
	default:
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("patch %s: only strategic merge and merge patches are supported, not %s", q.name, mediaType))
	}
	if err != nil {
		return nil, "", apierrors.NewBadRequest("patch: " + err.Error())
	}
	o, err := s.decode(patched)
	return o, modified, err
}

// mergePatch applies a patch by RFC 7386.
func mergePatch(original, patch []byte) ([]byte, error) {
	var to, from any
	if err := json.Unmarshal(original, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &from); err != nil {
		return nil, err
	}
	return json.Marshal(merged(to, from))
}

func merged(to, from any) any {
	changes, ok := from.(map[string]any)
	if !ok {
		return from
	}
	result, ok := to.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
			continue
		}
		result[name] = merged(result[name], value)
	}
	return result
}

// remove starts the deletion of a pod, which then waits for its kubelet. All other objects, and
// pods with a grace period of 0, are deleted at once.
func remove(q *query, _ *store, present object, body []byte, _ string) (object, eventKind, error) {
	var o metav1.DeleteOptions
	if len(body) > 0 {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &o); err != nil {
			return nil, "", apierrors.NewBadRequest(err.Error())
		}
	}
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != present.GetUID() {
		return nil, "", apierrors.NewConflict(q.resource, q.name, fmt.Errorf("to be deleted is UID %s, present is %s", *p.UID, present.GetUID()))
	}
	gone := present.DeepCopyObject().(object)
	if _, is := gone.(*corev1.Pod); !is || o.GracePeriodSeconds != nil && *o.GracePeriodSeconds == 0 {
		return gone, deleted, nil
	}
	if gone.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(time.Now().Add(30 * time.Second).Truncate(time.Second))
		gone.SetDeletionTimestamp(&at)
	}
	return gone, modified, nil
}

func create(q *query, s *store, present object, body []byte, mediaType string) (object, eventKind, error) {
	switch {
	case q.subresource == "eviction":
		return remove(q, s, present, nil, mediaType)
	case q.name != "":
		return nil, "", apierrors.NewMethodNotSupported(q.resource, "POST "+q.subresource)
	}
	o, err := s.decode(body)
	if err != nil {
		return nil, "", err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(q.namespace)
	}
	if s.find(o.GetNamespace(), o.GetName()) != nil {
		return nil, "", apierrors.NewAlreadyExists(q.resource, o.GetName())
	}
	o.SetUID(uid(9, len(s.created)))
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	return o, added, nil
}

// echo accepts an event without storing it.
func (c *Cluster) echo(w http.ResponseWriter, r *http.Request, f *format) error {
	body, _, err := read(r)
	if err != nil {
		return err
	}
	o, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return f.answer(w, http.StatusCreated, o)
}
