package client_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/client"
)

func phase(p corev1.PodPhase, reason string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = p, reason }
}

// bothWays runs a test with both ways of sending a list.
func bothWays(t *testing.T, test func(t *testing.T, s *server)) {
	for name, streams := range map[string]bool{"list": false, "streamed list": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newServer(t, streams))
		})
	}
}

func TestWatchPods_FollowsChanges(t *testing.T) {
	bothWays(t, func(t *testing.T, s *server) {
		s.set(pod("b"), pod("a"), pod("done", phase(corev1.PodSucceeded, "")), pod("evicted", phase(corev1.PodFailed, "Evicted")))
		c, log := s.connect(t, s.URL)
		known := []signals.Pod{{UID: "old", Name: "old"}}
		p := client.WatchPods(t.Context(), c, known, nil)
		eventually(t, "the pods are known", p.Synced, func() string {
			if !p.Synced() && p.State("uid-none") == client.Gone {
				return "a pod is gone before the first list"
			}
			return ""
		})
		if got := s.selected(); got != "spec.nodeName=n1" {
			t.Errorf("field selector %q, want spec.nodeName=n1", got)
		}
		if got := names(p.Active()); got != "a b" {
			t.Errorf("active: %s, want a b", got)
		}
		for uid, want := range map[string]client.PodState{
			"uid-a": client.Active, "uid-done": client.Ended, "uid-evicted": client.Evicted, "uid-none": client.Gone, "old": client.Gone,
		} {
			if got := p.State(uid); got != want {
				t.Errorf("%s is %s, want %s", uid, got, want)
			}
		}
		if object, ok := p.Get("uid-evicted"); !ok || object.Status.Reason != "Evicted" {
			t.Errorf("object of an evicted pod: %v %v", ok, object)
		}
		if _, ok := p.Get("uid-none"); ok {
			t.Error("a missing pod has an object")
		}
		before := p.Active()
		copied := slices.Clone(before)
		s.set(pod("c"), pod("a", phase(corev1.PodFailed, "Evicted")))
		s.remove("uid-b")
		eventually(t, "c is alone", func() bool { return names(p.Active()) == "c" })
		if p.State("uid-a") != client.Evicted || p.State("uid-b") != client.Gone {
			t.Errorf("a is %s, b is %s", p.State("uid-a"), p.State("uid-b"))
		}
		if !reflect.DeepEqual(before, copied) {
			t.Error("pods returned earlier have changed")
		}
		if n := log.Count("level="); n > 0 {
			t.Errorf("%d lines were logged without a fault", n)
		}
	})
}

// After any fault the known pods remain until the server sends better ones.
func TestWatchPods_RetainsPodsDuringFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail http.HandlerFunc
	}{
		{"429 with Retry-After", status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)},
		{"500", status(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{"503", status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)},
		{"409", status(http.StatusConflict, metav1.StatusReasonConflict)},
		{"410", status(http.StatusGone, metav1.StatusReasonExpired)},
		{"403", status(http.StatusForbidden, metav1.StatusReasonForbidden)},
		{"empty object", respond("application/json", "{}")},
		{"empty list without a resource version", respond("application/json", `{"apiVersion": "v1", "kind": "PodList", "items": []}`)},
		{"list of another kind", respond("application/json", `{"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "n1"}}]}`)},
		{"page of a proxy", respond("text/html", "<html>please log in</html>")},
		{"truncated list", respond("application/json", `{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"na`)},
		{"aborted connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"malformed protobuf", respond("application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff\xff")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, false)
			s.set(pod("a"), pod("b"))
			c, log := s.connect(t, s.URL)
			p := client.WatchPods(t.Context(), c, nil, nil)
			eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
			unchanged := func() string {
				if got := names(p.Active()); !strings.HasPrefix(got, "a b") || !p.Synced() || p.State("uid-a") != client.Active {
					return fmt.Sprintf("active: %q, a is %s", got, p.State("uid-a"))
				}
				return ""
			}
			s.interrupt(2, tc.fail)
			s.set(pod("c"))
			eventually(t, "two responses have failed", func() bool { return s.left() == 0 }, unchanged)
			eventually(t, "c is known", func() bool { return names(p.Active()) == "a b c" }, unchanged)
			eventually(t, "the fault is over", func() bool { return p.Err() == nil })
			if n := log.Count("Failed to reach the API server"); n > 2 || n != log.Count("Resumed requests to the API server") {
				t.Errorf("an outage was logged %d times, its end %d times", n, log.Count("Resumed requests to the API server"))
			}
		})
	}
}

func TestWatchPods_ReturnsKnownPodsUntilSynced(t *testing.T) {
	s := newServer(t, true)
	s.set(pod("a"))
	s.interrupt(2, status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))
	c, _ := s.connect(t, s.URL)
	var notifications atomic.Int32
	p := client.WatchPods(t.Context(), c, []signals.Pod{{UID: "old", Name: "old"}}, func() { notifications.Add(1) })
	eventually(t, "the server has answered", p.Synced, func() string {
		if !p.Synced() && notifications.Load() == 0 && (names(p.Active()) != "old" || p.State("old") != client.Unknown) && !p.Synced() {
			return fmt.Sprintf("active %q, old is %s", names(p.Active()), p.State("old"))
		}
		return ""
	})
	eventually(t, "the change was reported", func() bool { return notifications.Load() == 1 })
	if names(p.Active()) != "a" || p.State("old") != client.Gone {
		t.Errorf("active: %s, old is %s", names(p.Active()), p.State("old"))
	}
}

func TestConnect_WithoutServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	c, err := client.Connect(client.Options{NodeName: "n1"})
	if err != nil || c.Configured() || c.Client() != nil || c.Urgent() != nil {
		t.Fatalf("%v, configured %v", err, c.Configured())
	}
	p := client.WatchPods(t.Context(), c, []signals.Pod{{UID: "old", Name: "old"}}, nil)
	n := client.WatchNode(t.Context(), c, nil)
	if names(p.Active()) != "old" || p.Synced() || p.State("old") != client.Unknown || p.Err() != nil {
		t.Errorf("active %s, synced %v, old is %s, %v", names(p.Active()), p.Synced(), p.State("old"), p.Err())
	}
	if shutting, _ := n.ShuttingDown(); n.Object() != nil || n.Synced() || n.UID() != "" || n.KubeletVersion() != "" || shutting || n.Err() != nil {
		t.Errorf("a node without a server has state: %v", n.Object())
	}
}

// A burst of events makes few views, and the last one is complete.
func TestWatchPods_CoalescesBursts(t *testing.T) {
	s := newServer(t, true)
	c, _ := s.connect(t, s.URL)
	var notifications atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { notifications.Add(1) })
	eventually(t, "the server has answered", p.Synced)
	const count = 200
	all := make([]*corev1.Pod, count)
	for i := range all {
		all[i] = pod(fmt.Sprintf("p%03d", i))
	}
	start := time.Now()
	s.set(all...)
	eventually(t, "all are known", func() bool { return len(p.Active()) == count })
	if limit := 3 + time.Since(start)/(40*time.Millisecond); time.Duration(notifications.Load()) > limit {
		t.Errorf("%d changes were reported in %v, want at most %d", notifications.Load(), time.Since(start), limit)
	}
}

// A change that does not matter to decisions causes no call of changed, but is readable.
func TestWatchPods_IgnoresIrrelevantChanges(t *testing.T) {
	s := newServer(t, true)
	s.set(pod("a"))
	c, _ := s.connect(t, s.URL)
	var notifications atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { notifications.Add(1) })
	eventually(t, "the first change was reported", func() bool { return notifications.Load() == 1 && s.watched() == 1 })
	before := p.Active()
	s.set(pod("a", func(p *corev1.Pod) { p.Status.Message = "news" }))
	eventually(t, "the object is new", func() bool { o, ok := p.Get("uid-a"); return ok && o.Status.Message == "news" })
	if notifications.Load() != 1 || &before[0] != &p.Active()[0] {
		t.Errorf("%d notifications, or the pods were replaced", notifications.Load())
	}
}

// A kubelet may overwrite the reason of an evicted pod more than once, and faster than a repair is
// visible. Each of these changes is reported.
func TestPods_LostReasonIsReported(t *testing.T) {
	s := newServer(t, true)
	evicted := func(reason, message string) *corev1.Pod {
		return pod("a", phase(corev1.PodFailed, reason), func(p *corev1.Pod) {
			p.Status.Message = message
			p.Status.Conditions = []corev1.PodCondition{{Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue}}
		})
	}
	s.set(evicted("Evicted", "why"))
	c, _ := s.connect(t, s.URL)
	var notifications atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { notifications.Add(1) })
	eventually(t, "the first change was reported", func() bool { return notifications.Load() == 1 && s.watched() == 1 })
	for i, lost := range [][2]string{{"Evicted", ""}, {"", ""}, {"", "news"}, {"", "more"}} {
		s.set(evicted(lost[0], lost[1]))
		eventually(t, "the loss was reported", func() bool { return notifications.Load() == int32(2+i) })
		objects := slices.Collect(p.Unexplained())
		if len(objects) != 1 || objects[0].Name != "a" || objects[0].Status.Reason != lost[0] || objects[0].Status.Message != lost[1] || objects[0].ResourceVersion == "" {
			t.Errorf("%+v", objects)
		}
	}
}

// Only pods with a loss to repair are read again at each change of the pods.
func TestPods_UnexplainedReturnsOnlyLosses(t *testing.T) {
	s := newServer(t, false)
	marked := func(p *corev1.Pod) {
		p.Status.Message, p.Status.Conditions = "why", []corev1.PodCondition{{Type: "plimsoll.dev/Evicted", Status: corev1.ConditionTrue}}
	}
	s.set(pod("lost", phase(corev1.PodFailed, ""), marked), pod("runs", marked), pod("evicted", phase(corev1.PodFailed, "Evicted"), marked),
		pod("failed", phase(corev1.PodFailed, "")), pod("static", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.mirror": "5ta71c", "kubernetes.io/config.source": "file"}
		}))
	c, _ := s.connect(t, s.URL)
	p := client.WatchPods(t.Context(), c, nil, nil)
	eventually(t, "the pods are known", p.Synced)
	if objects := slices.Collect(p.Unexplained()); len(objects) != 1 || objects[0].Name != "lost" {
		t.Errorf("%+v", objects)
	}
	for uid, want := range map[string]bool{"uid-runs": true, "uid-lost": true, "uid-static": true, "5ta71c": false, "uid-none": false} {
		if p.Has(uid) != want {
			t.Errorf("Has(%s) = %t", uid, !want)
		}
	}
}

func TestWatchPods_RejectsInvalidPods(t *testing.T) {
	s := newServer(t, false)
	mirror := func(p *corev1.Pod) {
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "uid-a", "kubernetes.io/config.source": "file"}
	}
	static := func(p *corev1.Pod) {
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "5ta71c", "kubernetes.io/config.source": "file"}
	}
	s.set(pod("a"),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }),
		pod("evil", func(p *corev1.Pod) { p.Name = "../../evil" }),
		pod("impostor", mirror), // has the UID of a
		pod("static", static),
	)
	c, log := s.connect(t, s.URL)
	p := client.WatchPods(t.Context(), c, nil, nil)
	eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
	check := func() {
		t.Helper()
		if got := names(p.Active()); got != "a static" {
			t.Errorf("active: %s, want a static", got)
		}
		if p.Active()[0].Protection != signals.Unprotected {
			t.Error("a pod with the UID of another protects it")
		}
		if p.State("5ta71c") != client.Active || p.Active()[1].Protection != signals.Static {
			t.Error("a static pod is not active under its runtime UID")
		}
		if p.State("uid-elsewhere") != client.Gone {
			t.Error("a pod of another node is active")
		}
	}
	check()
	s.set(pod("evil", func(p *corev1.Pod) { p.Name = "../../evil" }))
	requestCount := s.requestCount()
	s.interrupt(1, status(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	eventually(t, "the pods are listed and watched again", func() bool { return s.requestCount() > requestCount+2 && s.watched() == 1 && p.Err() == nil })
	check()
	if n := log.Count("Ignored an invalid pod"); n != 2 {
		t.Errorf("%d log messages about invalid pods, want one for each of two", n)
	}
}

func TestWatchPods_EndsWithContext(t *testing.T) {
	s := newServer(t, true)
	c, log := s.connect(t, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	p := client.WatchPods(ctx, c, nil, nil)
	eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
	cancel()
	eventually(t, "the watch has ended", func() bool { return s.watched() == 0 })
	if n := log.Count("level="); n != 0 || p.Err() != nil {
		t.Errorf("a requested end was logged as a fault: %d lines, %v", n, p.Err())
	}
}
