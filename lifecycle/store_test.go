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

// changes returns the store's events since the previous call.
func changes(c *Controller) string {
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

func TestStore_ReportsChanges(t *testing.T) {
	var log logcapture.Book
	parts := Parts{Log: log.Logger()}
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
		{"list", func() error { return s.Replace([]any{bound("one"), bound("two")}, "1") }, "+one +two listed"},
		{"irrelevant change", func() error { return s.Update(idle) }, ""},
		{"change", func() error { return s.Update(changed) }, "+one"},
		{"invalid pod", func() error { return s.Update(faulty) }, ""},
		{"list with an invalid pod", func() error { return s.Replace([]any{faulty, bound("two")}, "2") }, ""},
		{"another pod of the same name", func() error { return s.Replace([]any{faulty, moved}, "3") }, "+two -two"},
		{"deletion", func() error { return s.Delete(bound("one")) }, "-one"},
		{"second deletion", func() error { return s.Delete(bound("one")) }, ""},
		{"empty list", func() error { return s.Replace(nil, "4") }, "-another"},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := changes(c); got != step.want {
			t.Errorf("%s: got changes %q, want %q", step.name, got, step.want)
		}
	}
	if err := s.Replace([]any{bound("one"), &corev1.Node{}}, "5"); err == nil || changes(c) != "" {
		t.Errorf("part of an invalid list was stored: %v", err)
	}
}

// TestStore_ConvertsStreamedList covers streamed lists, which client-go collects in a store of
// its own by the names that it finds.
func TestStore_ConvertsStreamedList(t *testing.T) {
	c := &Controller{inbox: newInbox(), warnings: &warnings{}}
	s := c.podStore()
	collected := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.WithTransformer(s.Transformer()))
	for i := range 3 {
		if err := collected.Add(bound(fmt.Sprint("p", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range collected.List() {
		if _, short := object.(*converted[*model.Pod]); !short {
			t.Errorf("got a %T in the list, want a converted pod", object)
		}
	}
	if err := s.Replace(collected.List(), "1"); err != nil {
		t.Fatal(err)
	}
	if got := changes(c); got != "+p0 +p1 +p2 listed" {
		t.Errorf("got changes %q", got)
	}
}

// BenchmarkConverter_BytesPerPod reports the stored bytes per pod.
func BenchmarkConverter_BytesPerPod(b *testing.B) {
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

func TestLink_RefusalIsNoOutage(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for _, c := range []struct {
		name   string
		err    error
		outage bool
	}{
		{"success", nil, false},
		{"connection refused", errors.New("connection refused"), true},
		{"overloaded server", apierrors.NewTooManyRequests("later", 1), true},
		{"forbidden", apierrors.NewForbidden(leases, "", errors.New("no")), false},
		{"unauthorized", apierrors.NewUnauthorized("no"), false},
		{"expired version", apierrors.NewResourceExpired("list anew"), false},
	} {
		outages := 0
		l := &link{Health: reflector.Health{What: "leases", Log: slog.New(slog.DiscardHandler)}, fails: func() { outages++ }}
		l.observe(t.Context(), c.err)
		if (outages > 0) != c.outage {
			t.Errorf("%s: got %d outages, want %v", c.name, outages, c.outage)
		}
		if faulty := c.err != nil && !apierrors.IsResourceExpired(c.err); (l.Err() != nil) != faulty {
			t.Errorf("%s: got link error %v", c.name, l.Err())
		}
	}
}
