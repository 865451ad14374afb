package reflector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
)

// clientOf returns a client of a server with one response to all requests.
func clientOf(t *testing.T, answer http.HandlerFunc) kubernetes.Interface {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	c, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// each reads a list of pods, and returns their names.
func each(t *testing.T, answer []byte) (names []string, meta metav1.ListMeta, err error) {
	t.Helper()
	c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
	meta, err = reflector.Each(t.Context(), reflector.Requests(c.CoreV1().RESTClient(), "pods", "ns")(), &corev1.Pod{}, func(o apiruntime.Object) error {
		names = append(names, o.(*corev1.Pod).Name)
		return nil
	})
	return names, meta, err
}

// encoded returns a list as a server sends it.
func encoded(t *testing.T, mediaType string, list apiruntime.Object) []byte {
	t.Helper()
	info, _ := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	var b bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(list, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func podList(names ...string) *corev1.PodList {
	rest := int64(3)
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "there", RemainingItemCount: &rest}}
	for _, name := range names {
		l.Items = append(l.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": strings.Repeat("x", 40<<10)}}})
	}
	return l
}

func TestEach_ReadsJSONAndProtobuf(t *testing.T) {
	for _, mediaType := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		for _, want := range [][]string{nil, {"a"}, {"a", "b", "c"}} {
			names, meta, err := each(t, encoded(t, mediaType, podList(want...)))
			if err != nil || fmt.Sprint(names) != fmt.Sprint(want) || meta.ResourceVersion != "9" || meta.Continue != "there" || *meta.RemainingItemCount != 3 {
				t.Errorf("%s: %v, %+v, %v; want %v", mediaType, names, meta, err, want)
			}
		}
	}
	names, _, err := each(t, []byte(`{"items": [{"metadata": {"name": "a"}}], "unknown": [1, {}], "metadata": {}, "kind": "PodList"}`))
	if err != nil || len(names) != 1 {
		t.Errorf("other order of fields: %v, %v", names, err)
	}
}

func TestEach_RejectsOtherInput(t *testing.T) {
	whole := map[string][]byte{}
	for _, mediaType := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		whole[mediaType] = encoded(t, mediaType, podList("a", "b"))
		for _, n := range []int{1, 3, 10, 100, len(whole[mediaType]) / 2, len(whole[mediaType]) - 3} {
			if _, _, err := each(t, whole[mediaType][:n]); err == nil {
				t.Errorf("%s: %d bytes of %d count as a list", mediaType, n, len(whole[mediaType]))
			}
		}
		if _, _, err := each(t, encoded(t, mediaType, &corev1.NodeList{Items: []corev1.Node{{}}})); err == nil || !strings.Contains(err.Error(), "NodeList") {
			t.Errorf("%s: list of another kind: %v", mediaType, err)
		}
	}
	for _, text := range []string{"", "<html>", "[]", "null", `{"kind": "PodList", "items": {}}`, `{"kind": "PodList", "items": [1]}`, "k8s\x00\xff\xff\xff", "k8s\x00"} {
		if _, _, err := each(t, []byte(text)); err == nil {
			t.Errorf("%q counts as a list", text)
		}
	}
}

func TestEach_BoundsAnObject(t *testing.T) {
	huge := podList("a")
	huge.Items[0].Annotations["a"] = strings.Repeat("x", 17<<20)
	for _, mediaType := range []string{apiruntime.ContentTypeJSON, apiruntime.ContentTypeProtobuf} {
		if _, _, err := each(t, encoded(t, mediaType, huge)); !errors.Is(err, reflector.ErrTooLarge) {
			t.Errorf("%s: %v", mediaType, err)
		}
	}
}

func FuzzEach(f *testing.F) {
	f.Add([]byte(`{"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}]}`))
	f.Add([]byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12\x09\x0a\x03\x12\x01\x39\x12\x02\x0a\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		names, _, err := each(t, answer)
		if len(names) > len(answer) {
			t.Errorf("%d objects in %d bytes, %v", len(names), len(answer), err)
		}
	})
}

// listing is a store of the pods' names and of the reachable bytes of the heap.
type listing struct {
	cache.Store
	listed chan []any
}

func (l *listing) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if p, is := o.(*corev1.Pod); is {
			return p.Name, nil
		}
		return o, nil
	}
}

func (l *listing) Replace(list []any, _ string) error {
	l.listed <- list
	return nil
}

func TestKind_TransformsListDuringTransfer(t *testing.T) {
	one := encoded(t, apiruntime.ContentTypeJSON, &podList("a").Items[0])
	var peak, before uint64
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "code": 422, "reason": "Invalid", "status": "Failure"}`))
			return
		}
		_, _ = fmt.Fprint(w, `{"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [`)
		for i := range 1000 {
			_, _ = w.Write(one)
			_, _ = w.Write([]byte(",")[:min(1, 999-i)])
			if i%100 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if before == 0 {
					before = m.HeapAlloc
				}
				peak = max(peak, m.HeapAlloc)
			}
		}
		_, _ = fmt.Fprint(w, "]}")
	})
	into := &listing{cache.NewStore(cache.MetaNamespaceKeyFunc), make(chan []any, 100)}
	k := reflector.Kind[*corev1.PodList]{
		What: "pods", From: c.CoreV1().Pods(""), Example: &corev1.Pod{}, Into: into, Patience: reflector.Timeouts{List: time.Minute, Open: time.Minute, Pauses: wait.Backoff{Duration: time.Second, Steps: 1}},
		Request: reflector.Requests(c.CoreV1().RESTClient(), "pods", ""),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := k.Run(ctx, c, func(context.Context, error) {})
	list := <-into.listed
	cancel()
	ended()
	if len(list) != 1000 || list[999] != "a" {
		t.Errorf("the store received %d objects: %.100v", len(list), list)
	}
	if grown := int64(peak) - int64(before); grown > 16<<20 {
		t.Errorf("%d MiB more were reachable while 40 MB of pods arrived", grown>>20)
	}
}

// A list without progress is abandoned.
func TestKind_AbandonsStalledList(t *testing.T) {
	c := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	faults := make(chan error, 100)
	k := reflector.Kind[*corev1.PodList]{
		What: "pods", From: c.CoreV1().Pods(""), Example: &corev1.Pod{}, Into: cache.NewStore(cache.MetaNamespaceKeyFunc),
		Patience: reflector.Timeouts{List: 50 * time.Millisecond, Open: time.Minute, Pauses: wait.Backoff{Duration: time.Hour, Steps: 1}},
		Request:  reflector.Requests(c.CoreV1().RESTClient(), "pods", ""),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := k.Run(ctx, &source{}, func(_ context.Context, err error) { faults <- err })
	if err := <-faults; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	cancel()
	ended()
}
