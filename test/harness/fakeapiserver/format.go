package fakeapiserver

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// format is the encoding of objects in requests and responses.
type format struct {
	at         int // index in formats
	mediaType  string
	streamType string // of watches
	info       runtime.SerializerInfo
}

// formats that clients can request. The first is the default.
var formats = [...]format{
	newFormat(0, runtime.ContentTypeJSON, runtime.ContentTypeJSON),
	newFormat(1, runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+";stream=watch"),
}

func newFormat(at int, mediaType, streamType string) format {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		panic("client-go does not know " + mediaType)
	}
	return format{at, mediaType, streamType, info}
}

// accepted returns the first supported format in the client's list.
func accepted(r *http.Request) *format {
	for wish := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		mediaType, _, err := mime.ParseMediaType(wish)
		if err != nil {
			continue
		}
		for i := range formats {
			if formats[i].mediaType == mediaType {
				return &formats[i]
			}
		}
	}
	return &formats[0]
}

// frame encodes a change as a watch event.
func (f *format) frame(kind eventKind, o object) ([]byte, error) {
	var body, whole, framed bytes.Buffer
	if err := f.info.Serializer.Encode(o, &body); err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	e := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: body.Bytes()}}
	if err := f.info.StreamSerializer.Serializer.Encode(e, &whole); err != nil {
		return nil, fmt.Errorf("encode the change of %s: %w", o.GetName(), err)
	}
	// Framers need a frame in one piece.
	_, err := f.info.StreamSerializer.Framer.NewFrameWriter(&framed).Write(whole.Bytes())
	return framed.Bytes(), err
}

// answer sends an object.
func (f *format) answer(w http.ResponseWriter, code int, o runtime.Object) error {
	w.Header().Set("Content-Type", f.mediaType)
	w.WriteHeader(code)
	return hangUp(f.info.Serializer.Encode(o, w))
}

// empty returns an empty object of the shelf's kind.
func (s *store) empty() (object, error) {
	made, err := scheme.Scheme.New(s.gv.WithKind(s.kind))
	if err != nil {
		return nil, err
	}
	made.GetObjectKind().SetGroupVersionKind(s.gv.WithKind(s.kind))
	return made.(object), nil
}

// list returns a list of objects.
func (s *store) list(objects []runtime.Object, version, next string) (runtime.Object, error) {
	kind := s.gv.WithKind(s.kind + "List")
	l, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	l.GetObjectKind().SetGroupVersionKind(kind)
	if err := meta.SetList(l, objects); err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(l)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(version)
	m.SetContinue(next)
	return l, nil
}
