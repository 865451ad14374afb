package lifecycle

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestMarkNotReady_RunsConcurrently checks that a slow server delays marks concurrently, one per
// worker.
func TestMarkNotReady_RunsConcurrently(t *testing.T) {
	const pods, pause = 64, time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b"} {
			r.node(name)
		}
		for i := range pods {
			r.pod("a", fmt.Sprintf("web%02d", i), tolerating(3600))
		}
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b")
		r.with(func() {
			r.fault = func(q *http.Request) (*http.Response, error) {
				if strings.HasPrefix(q.URL.Path, "/api/v1/namespaces/default/pods/") {
					<-time.After(pause)
				}
				return nil, nil
			}
		})
		r.start()
		rounds := time.Duration(pods / workers[repair])
		died := 50 * time.Second
		r.until(died + rounds*pause/2)
		if n := r.marked(); n == 0 || n == pods {
			t.Errorf("halfway: got %d marked pods", n)
		}
		r.until(died + 3*rounds*pause) // a read before each write, and slack
		if n := r.marked(); n != pods {
			t.Errorf("got %d marked pods, want %d", n, pods)
		}
		if n := strings.Count(r.lines("mark-not-ready"), "\n"); n != pods {
			t.Errorf("got %d marks, want %d", n, pods)
		}
	})
}

// marked counts the pods that are not ready.
func (r *env) marked() (n int) {
	r.with(func() {
		for _, o := range r.objects["pods"] {
			for _, c := range o.(*corev1.Pod).Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
					n++
				}
			}
		}
	})
	return n
}

// TestEvents_BeginAndCancelOfEviction checks that the begin and the cancellation of an eviction are
// reported in events of the pod, by its UID.
func TestEvents_BeginAndCancelOfEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		for _, name := range []string{"a", "b"} {
			r.node(name)
		}
		r.pod("a", "gone", tolerating(0))
		r.pod("a", "kept", tolerating(300))
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b")
		r.start()
		r.until(60 * time.Second)
		r.reportReady("a")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a")
		r.until(600 * time.Second)
		got := map[string]string{}
		r.with(func() {
			for _, e := range r.events {
				if e.Reason == "TaintManagerEviction" {
					got[string(e.InvolvedObject.UID)] += e.InvolvedObject.APIVersion + " " + e.Type + " " + e.Source.Component + " " + e.Message
				}
			}
		})
		for uid, want := range map[string]string{
			"uid-gone": "v1 Normal taint-eviction-controller Marking for deletion Pod default/gone",
			"uid-kept": "v1 Normal taint-eviction-controller Cancelling deletion of Pod default/kept",
		} {
			if got[uid] != want {
				t.Errorf("%s: got event %q, want %q", uid, got[uid], want)
			}
		}
	})
}
