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

func TestPodsComeAndGo(t *testing.T) {
	bothWays(t, func(t *testing.T, s *server) {
		s.set(pod("b"), pod("a"), pod("done", phase(corev1.PodSucceeded, "")), pod("evicted", phase(corev1.PodFailed, "Evicted")))
		c, log := s.connect(t, s.URL)
		known := []signals.Pod{{UID: "old", Name: "old"}}
		p := client.WatchPods(t.Context(), c, known, nil)
		eventually(t, "the pods are known", p.Synced, func() string {
			if !p.Synced() && p.State("uid-none") == client.Gone {
				return "a pod is gone before the server has said so"
			}
			return ""
		})
		if got := s.selected(); got != "spec.nodeName=n1" {
			t.Errorf("asked for %q: pods of other nodes are not this one's business", got)
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
			t.Errorf("the object of an evicted pod: %v %v", ok, object)
		}
		if _, ok := p.Get("uid-none"); ok {
			t.Error("there is an object of a pod that does not exist")
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
			t.Error("pods that were handed out have changed")
		}
		if n := log.Count("level="); n > 0 {
			t.Errorf("%d lines were logged though nothing went wrong", n)
		}
	})
}

// After any fault the known pods remain until the server sends better ones.
func TestFaultsOfTheServerLoseNoPod(t *testing.T) {
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
		{"an empty object", says("application/json", "{}")},
		{"an empty list without a resource version", says("application/json", `{"apiVersion": "v1", "kind": "PodList", "items": []}`)},
		{"another list", says("application/json", `{"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "n1"}}]}`)},
		{"a page of a proxy", says("text/html", "<html>please log in</html>")},
		{"a list that breaks off", says("application/json", `{"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"na`)},
		{"a connection that breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"a protobuf that is none", says("application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff\xff")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, false)
			s.set(pod("a"), pod("b"))
			c, log := s.connect(t, s.URL)
			p := client.WatchPods(t.Context(), c, nil, nil)
			eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
			still := func() string {
				if got := names(p.Active()); !strings.HasPrefix(got, "a b") || !p.Synced() || p.State("uid-a") != client.Active {
					return fmt.Sprintf("active: %q, a is %s", got, p.State("uid-a"))
				}
				return ""
			}
			s.interrupt(2, tc.fail)
			s.set(pod("c"))
			eventually(t, "two answers have failed", func() bool { return s.left() == 0 }, still)
			eventually(t, "c is known", func() bool { return names(p.Active()) == "a b c" }, still)
			eventually(t, "the fault is over", func() bool { return p.Err() == nil })
			if n := log.Count("Failed to reach the API server"); n > 2 || n != log.Count("Resumed requests to the API server") {
				t.Errorf("an outage was told %d times, its end %d times", n, log.Count("Resumed requests to the API server"))
			}
		})
	}
}

func TestKnownPodsServeUntilTheServerAnswers(t *testing.T) {
	s := newServer(t, true)
	s.set(pod("a"))
	s.interrupt(2, status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))
	c, _ := s.connect(t, s.URL)
	var told atomic.Int32
	p := client.WatchPods(t.Context(), c, []signals.Pod{{UID: "old", Name: "old"}}, func() { told.Add(1) })
	eventually(t, "the server has answered", p.Synced, func() string {
		if !p.Synced() && told.Load() == 0 && (names(p.Active()) != "old" || p.State("old") != client.Unknown) && !p.Synced() {
			return fmt.Sprintf("active %q, old is %s", names(p.Active()), p.State("old"))
		}
		return ""
	})
	eventually(t, "the change was told", func() bool { return told.Load() == 1 })
	if names(p.Active()) != "a" || p.State("old") != client.Gone {
		t.Errorf("active: %s, old is %s", names(p.Active()), p.State("old"))
	}
}

func TestWithoutAServer(t *testing.T) {
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
		t.Errorf("something is known of a node without a server: %v", n.Object())
	}
}

// A burst of events makes few views, and the last one is complete.
func TestBurstsAreTakenTogether(t *testing.T) {
	s := newServer(t, true)
	c, _ := s.connect(t, s.URL)
	var told atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { told.Add(1) })
	eventually(t, "the server has answered", p.Synced)
	const many = 200
	all := make([]*corev1.Pod, many)
	for i := range all {
		all[i] = pod(fmt.Sprintf("p%03d", i))
	}
	start := time.Now()
	s.set(all...)
	eventually(t, "all are known", func() bool { return len(p.Active()) == many })
	if most := 3 + time.Since(start)/(40*time.Millisecond); time.Duration(told.Load()) > most {
		t.Errorf("%d changes were told in %v, at most %d were to be expected", told.Load(), time.Since(start), most)
	}
}

// A change that does not matter to decisions causes no call of changed, but is readable.
func TestChangesThatChangeNothing(t *testing.T) {
	s := newServer(t, true)
	s.set(pod("a"))
	c, _ := s.connect(t, s.URL)
	var told atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { told.Add(1) })
	eventually(t, "the first change was told", func() bool { return told.Load() == 1 && s.watched() == 1 })
	before := p.Active()
	s.set(pod("a", func(p *corev1.Pod) { p.Status.Message = "news" }))
	eventually(t, "the object is new", func() bool { o, ok := p.Get("uid-a"); return ok && o.Status.Message == "news" })
	if told.Load() != 1 || &before[0] != &p.Active()[0] {
		t.Errorf("told %d times, or the pods were made anew", told.Load())
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
	var told atomic.Int32
	p := client.WatchPods(t.Context(), c, nil, func() { told.Add(1) })
	eventually(t, "the first change was reported", func() bool { return told.Load() == 1 && s.watched() == 1 })
	for i, lost := range [][2]string{{"Evicted", ""}, {"", ""}, {"", "news"}, {"", "more"}} {
		s.set(evicted(lost[0], lost[1]))
		eventually(t, "the loss was reported", func() bool { return told.Load() == int32(2+i) })
		objects := slices.Collect(p.Unexplained())
		if len(objects) != 1 || objects[0].Name != "a" || objects[0].Status.Reason != lost[0] || objects[0].Status.Message != lost[1] || objects[0].ResourceVersion == "" {
			t.Errorf("%+v", objects)
		}
	}
}

// Only pods with a loss to repair are read again at each change of the pods.
func TestPods_Unexplained(t *testing.T) {
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
			t.Errorf("there is a pod with the UID %s: %t", uid, !want)
		}
	}
}

func TestPodsThatCanNotBeUsed(t *testing.T) {
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
		pod("impostor", mirror), // claims the UID of a
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
			t.Error("a pod that claims the UID of another protects it")
		}
		if p.State("5ta71c") != client.Active || p.Active()[1].Protection != signals.Static {
			t.Error("a static pod is not known by the UID under which it runs")
		}
		if p.State("uid-elsewhere") != client.Gone {
			t.Error("a pod of another node is taken for one of this node")
		}
	}
	check()
	s.set(pod("evil", func(p *corev1.Pod) { p.Name = "../../evil" }))
	asked := s.asked()
	s.interrupt(1, status(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	eventually(t, "the pods are listed and watched again", func() bool { return s.asked() > asked+2 && s.watched() == 1 && p.Err() == nil })
	check()
	if n := log.Count("Ignored an invalid pod"); n != 2 {
		t.Errorf("told %d times that a pod can not be used, want once for each of two", n)
	}
}

func TestTheWatchEndsWithItsContext(t *testing.T) {
	s := newServer(t, true)
	c, log := s.connect(t, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	p := client.WatchPods(ctx, c, nil, nil)
	eventually(t, "the pods are known and watched", func() bool { return p.Synced() && s.watched() == 1 })
	cancel()
	eventually(t, "nobody watches", func() bool { return s.watched() == 0 })
	if n := log.Count("level="); n != 0 || p.Err() != nil {
		t.Errorf("an end that was asked for was told as a fault: %d lines, %v", n, p.Err())
	}
}
