package bulk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Server serves the pods. Its fields must not change while it serves.
type Server struct {
	Node string
	// Pods is the number of pods, and Failed the number of failed ones among them.
	Pods, Failed int
	// Grow fills the first pod of a kind to the size of all pods of that kind.
	Grow func(*corev1.Pod)
	// Streams enables lists as watch events for clients that request them.
	Streams bool
	// Protobuf enables responses in protobuf.
	Protobuf bool
	// Sent, if set, is called after each pod.
	Sent func(pods int)

	running, failed []byte // encoded, under the placeholder's name
}

// placeholder is the name and UID of the encoded pods, replaced by each pod's own.
const placeholder = "p-000000"

// Prepare encodes the pods, and returns the size of a running one in bytes. Returns the error
// of the encoder.
func (s *Server) Prepare() (int, error) {
	for phase, into := range map[corev1.PodPhase]*[]byte{corev1.PodRunning: &s.running, corev1.PodFailed: &s.failed} {
		p := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "bulk", Name: placeholder, UID: types.UID(placeholder), ResourceVersion: "7"},
			Spec:       corev1.PodSpec{NodeName: s.Node, Containers: []corev1.Container{{Name: "main", Image: "bulk"}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
		s.Grow(p)
		var err error
		if s.Protobuf {
			*into, err = p.Marshal()
		} else {
			*into, err = json.Marshal(p)
		}
		if err != nil {
			return 0, fmt.Errorf("encode a pod: %w", err)
		}
	}
	return len(s.running), nil
}

// Texts returns n texts of 1 KiB that share no memory.
func Texts(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("%04d", i) + strings.Repeat("x", 1020)
	}
	return texts
}

// Fill adds about 1.3 MB of environment, arguments and managed fields to a pod.
func Fill(p *corev1.Pod) {
	for i, text := range Texts(600) {
		c := &p.Spec.Containers[0]
		c.Env, c.Args = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("E", i), Value: text}), append(c.Args, text)
	}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":"` + strings.Repeat("x", 100<<10) + `"}`)}}
}

// pod returns the encoded pod of a number.
func (s *Server) pod(i int) []byte {
	of := s.running
	if i < s.Failed {
		of = s.failed
	}
	return bytes.ReplaceAll(of, []byte(placeholder), fmt.Appendf(nil, "p-%06d", i))
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	watching, initial := q.Get("watch") != "", q.Get("sendInitialEvents") == "true"
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	switch resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case resource == "selfsubjectaccessreviews":
		_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": {"allowed": true}}`)
	case resource != "pods" && resource != "nodes":
		w.WriteHeader(http.StatusNotFound)
	case watching && initial && !s.Streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"}`)
	case resource == "nodes" && !watching:
		_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": []}`)
	case watching:
		s.stream(w, r, resource == "pods" && initial, initial)
	case s.Protobuf:
		s.listProtobuf(w)
	default:
		s.list(w)
	}
}

func (s *Server) list(w http.ResponseWriter) {
	_, _ = io.WriteString(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [`)
	for i := range s.Pods {
		if i > 0 {
			_, _ = io.WriteString(w, ",")
		}
		_, _ = w.Write(s.pod(i))
		s.sent(w, i)
	}
	_, _ = io.WriteString(w, "]}")
}

// listProtobuf sends the list in a runtime.Unknown: its type is field 1, its bytes are field 2.
// In these bytes the metadata is field 1 and each item field 2.
func (s *Server) listProtobuf(w http.ResponseWriter) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	kind, err := (&runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	if err != nil {
		return
	}
	about, err := (&metav1.ListMeta{ResourceVersion: "7"}).Marshal()
	if err != nil {
		return
	}
	size := len(field(1, len(about))) + len(about)
	for i := range s.Pods {
		n := len(s.running)
		if i < s.Failed {
			n = len(s.failed)
		}
		size += len(field(2, n)) + n
	}
	for _, part := range [][]byte{[]byte("k8s\x00"), field(1, len(kind)), kind, field(2, size), field(1, len(about)), about} {
		_, _ = w.Write(part)
	}
	for i := range s.Pods {
		pod := s.pod(i)
		_, _ = w.Write(field(2, len(pod)))
		_, _ = w.Write(pod)
		s.sent(w, i)
	}
}

// field returns the header of a field with n bytes.
func field(number, n int) []byte {
	return binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(n))
}

func (s *Server) sent(w http.ResponseWriter, i int) {
	w.(http.Flusher).Flush()
	if s.Sent != nil {
		s.Sent(i + 1)
	}
}

// stream answers a watch: the pods as events if requested, a bookmark after them if marked, and
// nothing further.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, pods, marked bool) {
	media := runtime.ContentTypeJSON
	if s.Protobuf {
		media = runtime.ContentTypeProtobuf
		w.Header().Set("Content-Type", media+";stream=watch")
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	send := func(kind string, object []byte) error {
		var encoded bytes.Buffer
		e := &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}
		if err := info.StreamSerializer.Serializer.Encode(e, &encoded); err != nil {
			return err
		}
		_, err := info.StreamSerializer.Framer.NewFrameWriter(w).Write(encoded.Bytes())
		return err
	}
	w.(http.Flusher).Flush()
	for i := 0; pods && i < s.Pods; i++ {
		if send("ADDED", s.object(s.pod(i))) != nil {
			return
		}
		s.sent(w, i)
	}
	if marked {
		s.mark(send, !strings.HasSuffix(r.URL.Path, "pods"))
		w.(http.Flusher).Flush()
	}
	<-r.Context().Done()
}

// mark sends the bookmark that ends the events of a list.
func (s *Server) mark(send func(string, []byte) error, nodes bool) {
	about := metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	pod, node := corev1.Pod{ObjectMeta: about}, corev1.Node{ObjectMeta: about}
	pod.TypeMeta, node.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	var text []byte
	var err error
	switch {
	case s.Protobuf && nodes:
		var b bytes.Buffer
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		err = info.Serializer.Encode(&node, &b)
		text = b.Bytes()
	case s.Protobuf:
		if text, err = pod.Marshal(); err == nil {
			text = s.object(text)
		}
	case nodes:
		text, err = json.Marshal(&node)
	default:
		text, err = json.Marshal(&pod)
	}
	if err == nil {
		_ = send("BOOKMARK", text)
	}
}

// object returns an encoded pod as a complete response: in protobuf it is wrapped in a
// runtime.Unknown.
func (s *Server) object(pod []byte) []byte {
	if !s.Protobuf {
		return pod
	}
	encoded, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: pod}).Marshal()
	if err != nil {
		return nil
	}
	return append([]byte("k8s\x00"), encoded...)
}
