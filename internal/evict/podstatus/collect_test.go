package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newPending returns a harness with a pod that was killed while the server had this fault.
func newPending(t *testing.T, options Options, f fault) (*harness, Notice) {
	h, n := newHarness(t, options), notice("p")
	n.Decided = time.Now()
	h.put(running(n))
	h.broken(f)
	h.Enqueue(n)
	h.Commit(n.UID)
	return h, n
}

func TestRun_ReportsDespiteFaults(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("RBAC"))
	for _, tc := range []struct {
		name        string
		fault       fault
		duration    time.Duration
		within      time.Duration // at most, after the fault has ended
		maxRequests int           // at most, during the fault
	}{
		{"no connection", refusedConnection, 10 * time.Minute, 30 * time.Second, 32},
		{"no answer", hang, 10 * time.Minute, 41 * time.Second, 32},
		{"503", answering(apierrors.NewServiceUnavailable("starting")), 10 * time.Minute, 30 * time.Second, 32},
		{"500", answering(apierrors.NewInternalError(errors.New("etcd"))), 10 * time.Minute, 30 * time.Second, 64},
		{"500 for pods", only("/pods/", answering(apierrors.NewInternalError(errors.New("etcd")))), 10 * time.Minute, 30 * time.Second, 64},
		{"410", answering(apierrors.NewResourceExpired("too old")), 10 * time.Minute, 30 * time.Second, 64},
		{"404 by a load balancer", balancer, 10 * time.Minute, 30 * time.Second, 64},
		{"409 permanently", only("PATCH", answering(apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("modified")))), 10 * time.Minute, 30 * time.Second, 200},
		{"429 with Retry-After", answering(apierrors.NewTooManyRequests("later", 100)), 10 * time.Minute, 100 * time.Second, 7},
		{"429 for events", only("/events", answering(apierrors.NewTooManyRequests("later", 100))), 10 * time.Minute, 100 * time.Second, 9},
		{"no right", answering(forbidden), 10 * time.Minute, 30 * time.Second, 64},
		{"no right to read", only("GET", answering(forbidden)), 10 * time.Minute, 30 * time.Second, 64},
		{"no right to events", only("/events", answering(forbidden)), 10 * time.Minute, 30 * time.Second, 64},
		{"rights not loaded", answering(forbidden), 8 * time.Second, 8 * time.Second, 20},
		{"lost answers", lost, time.Second, 30 * time.Second, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newPending(t, Options{}, tc.fault)
				defer h.run(nil)()
				wait(t, tc.duration)
				if h.PendingCount() != 1 {
					t.Fatalf("during the fault: got %d pending, want 1", h.PendingCount())
				}
				if got := len(h.arrived()); got > tc.maxRequests {
					t.Errorf("during the fault: got %d requests, want at most %d", got, tc.maxRequests)
				}
				h.broken(nil)
				wait(t, tc.within)
				h.expectComplete(n)
				// Reading pods and creating events are two rights. A server that has just started
				// forbids everything for a moment.
				if complaints := h.lines.Count("deploy/rbac"); complaints > 2 || (complaints > 0) != strings.Contains(tc.name, "no right") {
					t.Errorf("got %d log lines on missing rights", complaints)
				}
			})
		})
	}
}

// expectComplete checks that status and event exist once each, and that the queue is empty.
func (h *harness) expectComplete(n Notice) {
	h.t.Helper()
	statuses, events := h.counts()
	if h.PendingCount() != 0 || len(h.saved) != 0 || statuses != 1 || events != 1 {
		h.t.Errorf("got %d pending, %d saved, %d statuses, %d events, want 0, 0, 1, 1", h.PendingCount(), len(h.saved), statuses, events)
	}
	if pod := h.pod(n.Name); pod.Status.Reason != ReasonEvicted || pod.Status.Message != n.Message || pod.Status.Phase != corev1.PodFailed {
		h.t.Errorf("got status %+v", pod.Status)
	}
}

func TestRun_BacksOffWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newPending(t, Options{}, refusedConnection)
		defer h.run(nil)()
		wait(t, time.Hour)
		pause := requestBackoff.Min
		for i := 1; i < len(h.at); i++ {
			got := h.at[i].Sub(h.at[i-1])
			if got < pause-pause/4-1 || got > pause {
				t.Fatalf("pause %d: got %v, want %v or up to a quarter less", i, got, pause)
			}
			pause = min(2*pause, requestBackoff.Max)
		}
		if len(h.at) < 100 || pause != requestBackoff.Max {
			t.Errorf("got %d requests, last pause %v", len(h.at), pause)
		}
		if h.lines.Count("Dropping") != 0 {
			t.Error("a status was dropped without a refusal of the server")
		}
	})
}

func TestRun_DropsStatusRefusedForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newPending(t, Options{}, only("PATCH", answering(apierrors.NewInternalError(errors.New("webhook")))))
		defer h.run(nil)()
		wait(t, 59*time.Minute)
		if _, events := h.counts(); events != 1 || h.PendingCount() != 1 {
			t.Fatalf("got %d events, %d pending, want 1 and 1: the event does not wait for the status", events, h.PendingCount())
		}
		wait(t, 2*time.Minute)
		if h.PendingCount() != 0 || len(h.saved) != 0 {
			t.Errorf("after an hour: got %d pending, want 0", h.PendingCount())
		}
		if h.lines.Count("Dropping a pod status update") != 1 || h.lines.Count(evictionMessage) == 0 {
			t.Error("the dropped status is not logged with its message")
		}
	})
}

func TestRun_ReportsOthersBesideBlockedStatus(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault fault
	}{
		{"no answer for the first", only("/pods/p", hang)},
		{"first refused", only("/pods/p", answering(apierrors.NewInternalError(errors.New("webhook"))))},
		{"no connection for the first", only("/pods/p", refusedConnection)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, _ := newPending(t, Options{}, tc.fault)
				defer h.run(nil)()
				other := notice("q")
				h.with(func() { h.put(running(other)) })
				h.Enqueue(other)
				h.Commit(other.UID)
				wait(t, 15*time.Second)
				if left := h.Outstanding(); len(left) != 1 || left[0].Notice.Name != "p" {
					t.Errorf("got pending %+v, want only that of p", left)
				}
			})
		})
	}
}

func TestRun_DropsObsoleteParts(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		name             string
		change           func(*harness, *Notice)
		options          Options
		statuses, events int
	}{
		{"pod gone", func(h *harness, n *Notice) { delete(h.pods, "shop/p") }, Options{}, 0, 1},
		{"another pod with the name", func(h *harness, n *Notice) { h.pods["shop/p"].UID = "other" }, Options{}, 0, 1},
		{"namespace terminating", func(h *harness, n *Notice) { h.fault = only("/events", answering(terminating)) }, Options{}, 1, 0},
		{"namespace gone", func(h *harness, n *Notice) {
			h.fault = answering(apierrors.NewNotFound(corev1.Resource("namespaces"), "shop"))
		}, Options{}, 0, 0},
		{"container started since", func(h *harness, n *Notice) {
			h.pods["shop/p"].Status.ContainerStatuses[0] = runs("id-new", n.Decided.Add(time.Second))
		}, Options{}, 0, 1},
		{"container started since, unreported", func(*harness, *Notice) {}, Options{Running: node("id-new")}, 0, 1},
		{"nothing started since", func(*harness, *Notice) {}, Options{Running: node()}, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newPending(t, tc.options, nil)
				h.with(func() { tc.change(h, &n) })
				defer h.run(nil)()
				wait(t, time.Minute)
				if statuses, events := h.counts(); statuses != tc.statuses || events != tc.events || h.PendingCount() != 0 {
					t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
				}
			})
		})
	}
}

func node(ids ...string) func(context.Context, string) ([]string, error) {
	return func(context.Context, string) ([]string, error) { return ids, nil }
}

// A container that starts between the read and the patch causes a conflict, and is detected by the
// second read.
func TestRun_DetectsStartBetweenReadAndPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *harness
		h, n := newPending(t, Options{}, func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				h.with(func() {
					pod := h.pods["shop/p"].DeepCopy()
					pod.Status.ContainerStatuses[0] = runs("id-new", time.Now())
					h.put(pod)
					h.fault = nil
				})
			}
			return nil, nil
		})
		defer h.run(nil)()
		wait(t, time.Minute)
		if statuses, events := h.counts(); statuses != 0 || events != 1 || h.PendingCount() != 0 {
			t.Errorf("got %d statuses, %d events, %d pending", statuses, events, h.PendingCount())
		}
		if reads := strings.Count(strings.Join(h.arrived(), "\n"), "GET"); reads != 2 || h.pod("p").Status.Phase != corev1.PodRunning {
			t.Errorf("got %d reads, pod %s in phase %s, want 2 and Running", reads, n.Name, h.pod("p").Status.Phase)
		}
	})
}

func TestRun_PostponesStatusWithoutRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		h, n := newPending(t, Options{Running: func(context.Context, string) ([]string, error) {
			if down {
				return nil, errors.New("no runtime")
			}
			return nil, nil
		}}, nil)
		stop := h.run(nil)
		wait(t, time.Minute)
		if statuses, events := h.counts(); statuses != 0 || events != 1 {
			t.Errorf("got %d statuses, %d events, want 0 and 1", statuses, events)
		}
		stop()
		down = false
		defer h.run(nil)()
		wait(t, time.Minute)
		h.expectComplete(n)
	})
}

// The next run reports the contents of the state file, regardless of how far the kill proceeded.
func TestRun_ReportsStatusesOfPreviousRun(t *testing.T) {
	for _, tc := range []struct {
		name             string
		confirmed        bool
		running          []string
		statuses, events int
	}{
		{"killed", true, nil, 1, 1},
		{"killed, not confirmed", false, nil, 1, 1},
		{"never killed", false, []string{"id-p"}, 0, 0},
		{"restarted", true, []string{"id-new"}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{Running: node(tc.running...)}), notice("p")
				n.Decided = time.Now()
				h.put(running(n))
				h.Enqueue(n)
				if tc.confirmed {
					h.Commit(n.UID)
				}
				file, err := json.Marshal(h.saved)
				if err != nil {
					t.Fatal(err)
				}
				var previous []PendingStatus
				if err := json.Unmarshal(file, &previous); err != nil {
					t.Fatal(err)
				}
				successor := New(h.client, "node-1", h.Reporter.log, func(d []PendingStatus) { h.saved = d }, h.options)
				h.Reporter = successor
				defer h.run(previous)()
				wait(t, 2*time.Minute)
				if statuses, events := h.counts(); statuses != tc.statuses || events != tc.events || len(h.saved) != 0 {
					t.Errorf("got %d statuses, %d events, saved %+v", statuses, events, h.saved)
				}
			})
		})
	}
}

// Without Commit or Cancel, after 5 s the entry is checked against the state of the pod.
func TestRun_ReportsAfterKillTimeWithoutCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{}), notice("p")
		h.put(running(n))
		defer h.run(nil)()
		h.Enqueue(n)
		wait(t, killTime-time.Millisecond)
		if got := h.arrived(); len(got) != 0 {
			t.Fatalf("got requests %q before killTime, want none", got)
		}
		wait(t, time.Second)
		h.expectComplete(n)
	})
}

func TestAnnounce_CreatesOnlyEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{}), notice("p")
		h.put(running(n))
		defer h.run(nil)()
		h.Announce(n)
		wait(t, time.Second)
		if got := h.arrived(); !slices.Equal(got, []string{"POST shop/events"}) || h.PendingCount() != 0 {
			t.Errorf("got requests %q, %d pending", got, h.PendingCount())
		}
	})
}

func TestRun_DropsFaultySavedStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{}), notice("p")
		h.put(running(n))
		defer h.run([]PendingStatus{{Status: true}, {Notice: n, Ended: true, Status: true, Event: true}})()
		wait(t, time.Second)
		h.expectComplete(n)
		if h.lines.Count("without a pod or a time") != 1 {
			t.Error("the faulty entry is not in the log")
		}
	})
}

// After an outage the backoff starts anew.
func TestRun_ResetsBackoffAfterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newPending(t, Options{}, refusedConnection)
		defer h.run(nil)()
		wait(t, 10*time.Minute)
		h.broken(nil)
		wait(t, 30*time.Second)
		h.broken(refusedConnection)
		before := len(h.arrived())
		h.Announce(notice("q"))
		wait(t, time.Second)
		if tries := len(h.arrived()) - before; tries < 2 {
			t.Errorf("got %d tries in the first second of a second outage, want at least 2", tries)
		}
	})
}

// While the result of an immediate request is unknown, no other report runs.
func TestRun_WaitsForImmediateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{}), notice("p")
		h.put(running(n))
		h.broken(only("PATCH", func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
			<-time.After(time.Minute)
			return serve(), nil
		}))
		defer h.run(nil)()
		h.Enqueue(n)
		answer := make(chan error, 1)
		go func() { answer <- h.Evicted(t.Context(), n) }()
		synctest.Wait()
		h.Commit(n.UID)
		wait(t, 59*time.Second)
		if got := h.arrived(); !slices.Equal(got, []string{"PATCH shop/pods/p/status"}) {
			t.Errorf("got requests %q", got)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
		wait(t, time.Second)
		h.expectComplete(n)
	})
}

// A pod that runs again since the API server refused its status is named in the log with that answer, a deleted one is not.
func TestRun_NamesRefusalOfPodThatRunsAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*harness, *Notice)
		want   bool
	}{
		{"runs again", func(h *harness, n *Notice) {
			h.pods["shop/p"].Status.ContainerStatuses[0] = runs("id-new", n.Decided.Add(time.Second))
		}, true},
		{"deleted", func(h *harness, _ *Notice) { delete(h.pods, "shop/p") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{}), notice("p")
				n.Decided = time.Now()
				h.put(running(n))
				h.Enqueue(n)
				h.broken(only("PATCH", answering(apierrors.NewForbidden(corev1.Resource("pods/status"), "p", errors.New("a rule is missing")))))
				if err := h.Evicted(t.Context(), n); err == nil {
					t.Fatal("the status was accepted")
				}
				h.Commit(n.UID)
				h.broken(nil)
				h.with(func() { tc.change(h, &n) })
				defer h.run(nil)()
				wait(t, time.Minute)
				found := h.lines.Count("refused the status of an evicted pod") == 1 && h.lines.Count("a rule is missing") == 1
				if found != tc.want || h.PendingCount() != 0 {
					t.Errorf("named in the log: %v, want %v; %d pending:\n%s", found, tc.want, h.PendingCount(), h.lines)
				}
			})
		})
	}
}

// A namespace without a quota for events answers like a missing right. Tenants choose quotas.
func TestRun_RefusedEventIsNoMissingRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusals := 0
		h, _ := newPending(t, Options{Refused: func() { refusals++ }}, only("/events", answering(apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("exceeded quota")))))
		defer h.run(nil)()
		wait(t, time.Minute)
		if statuses, _ := h.counts(); statuses != 1 || refusals != 0 {
			t.Errorf("got %d statuses, %d refusals, want 1 and 0", statuses, refusals)
		}
	})
}
