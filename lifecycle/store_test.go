package lifecycle

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"plimsoll.dev/plimsoll/internal/kube/reflector"
	"plimsoll.dev/plimsoll/lifecycle/model"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// told returns the store's events since the previous call.
func told(c *Controller) string {
	var all []string
	for _, l := range c.inbox.collect().events {
		switch l := l.(type) {
		case podSeen:
			all = append(all, "+"+l.Name)
		case podGone:
			all = append(all, "-"+string(l))
		case listed:
			all = append(all, "listed")
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func bound(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "a"}}
}

func TestStoresTellWhatChanged(t *testing.T) {
	var book logcapture.Book
	parts := Parts{Log: book.Logger()}
	c := &Controller{parts: parts, inbox: newInbox(), warnings: &warnings{log: parts.Log}}
	s := c.podStore()
	faulty := bound("one")
	faulty.Spec.NodeName = ""
	changed := bound("one")
	changed.Status.Phase = corev1.PodFailed
	idle := bound("one")
	idle.Status.PodIP = "10.0.0.1"
	moved := bound("two")
	moved.UID = "another"
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"a list", func() error { return s.Replace([]any{bound("one"), bound("two")}, "1") }, "+one +two listed"},
		{"nothing that decides", func() error { return s.Update(idle) }, ""},
		{"a change", func() error { return s.Update(changed) }, "+one"},
		{"what is not understood", func() error { return s.Update(faulty) }, ""},
		{"a list with it: what was known stays", func() error { return s.Replace([]any{faulty, bound("two")}, "2") }, ""},
		{"the same name, another pod", func() error { return s.Replace([]any{faulty, moved}, "3") }, "+two -two"},
		{"a deletion", func() error { return s.Delete(bound("one")) }, "-one"},
		{"a second one", func() error { return s.Delete(bound("one")) }, ""},
		{"an empty list", func() error { return s.Replace(nil, "4") }, "-another"},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := told(c); got != step.want {
			t.Errorf("%s: told %q, not %q", step.name, got, step.want)
		}
	}
	if err := s.Replace([]any{bound("one"), &corev1.Node{}}, "5"); err == nil || told(c) != "" {
		t.Errorf("half a list was taken: %v", err)
	}
}

// TestAStreamedListIsKeptInShort covers streamed lists, which client-go collects in a store of
// its own by the names that it finds.
func TestAStreamedListIsKeptInShort(t *testing.T) {
	c := &Controller{inbox: newInbox(), warnings: &warnings{}}
	s := c.podStore()
	collected := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.WithTransformer(s.Transformer()))
	for i := range 3 {
		if err := collected.Add(bound(fmt.Sprint("p", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range collected.List() {
		if _, short := object.(*kept[*model.Pod]); !short {
			t.Errorf("it holds a %T", object)
		}
	}
	if err := s.Replace(collected.List(), "1"); err != nil {
		t.Fatal(err)
	}
	if got := told(c); got != "+p0 +p1 +p2 listed" {
		t.Errorf("told %q", got)
	}
}

// BenchmarkPodsKept reports the bytes kept per pod.
func BenchmarkPodsKept(b *testing.B) {
	const pods, nodes = 150_000, 5_000
	c := &converter{}
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprint("node-", i)
	}
	for b.Loop() {
		kept := make([]*model.Pod, pods)
		before := live()
		for i := range kept {
			p := bound(fmt.Sprintf("deployment-5d4f8c7b9-%05d", i))
			p.UID = types.UID(fmt.Sprintf("%08d-1234-1234-1234-123456789012", i))
			p.Namespace, p.Spec.NodeName = strings.Clone("a-namespace"), strings.Clone(names[i%nodes])
			tolerating(300)(p)
			kept[i] = c.pod(p)
		}
		b.ReportMetric(float64(live()-before)/pods, "bytes/pod")
		runtime.KeepAlive(kept)
	}
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAnAnswerThatRefusesIsNoOutage(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for _, c := range []struct {
		name   string
		err    error
		outage bool
	}{
		{"all is well", nil, false},
		{"nothing answers", errors.New("connection refused"), true},
		{"it is overloaded", apierrors.NewTooManyRequests("later", 1), true},
		{"a right is missing", apierrors.NewForbidden(leases, "", errors.New("no")), false},
		{"the token is not known", apierrors.NewUnauthorized("no"), false},
		{"what is held is too old", apierrors.NewResourceExpired("list anew"), false},
	} {
		told := 0
		l := &link{Health: reflector.Health{What: "leases", Log: slog.New(slog.DiscardHandler)}, fails: func() { told++ }}
		l.observe(t.Context(), c.err)
		if (told > 0) != c.outage {
			t.Errorf("%s: told of %d outages", c.name, told)
		}
		if faulty := c.err != nil && !apierrors.IsResourceExpired(c.err); (l.Err() != nil) != faulty {
			t.Errorf("%s: ready says %v", c.name, l.Err())
		}
	}
}
