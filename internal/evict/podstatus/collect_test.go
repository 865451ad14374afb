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

// owed returns a world with a pod that was killed while the server was in this state.
func owed(t *testing.T, options Options, f fault) (*world, Notice) {
	w, n := newWorld(t, options), notice("p")
	n.Decided = time.Now()
	w.put(running(n))
	w.broken(f)
	w.Enqueue(n)
	w.Commit(n.UID)
	return w, n
}

func TestWhatIsOwedIsPaidInSpiteOf(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("RBAC"))
	for _, tc := range []struct {
		about    string
		fault    fault
		lasts    time.Duration
		pays     time.Duration // at most, after the fault has ended
		requests int           // at most, during the fault
	}{
		{"no connection", refusedConnection, 10 * time.Minute, 30 * time.Second, 32},
		{"no answer", hang, 10 * time.Minute, 41 * time.Second, 32},
		{"503", answering(apierrors.NewServiceUnavailable("starting")), 10 * time.Minute, 30 * time.Second, 32},
		{"500", answering(apierrors.NewInternalError(errors.New("etcd"))), 10 * time.Minute, 30 * time.Second, 64},
		{"500 for pods", only("/pods/", answering(apierrors.NewInternalError(errors.New("etcd")))), 10 * time.Minute, 30 * time.Second, 64},
		{"410", answering(apierrors.NewResourceExpired("too old")), 10 * time.Minute, 30 * time.Second, 64},
		{"404 by a load balancer", balancer, 10 * time.Minute, 30 * time.Second, 64},
		{"409 for ever", only("PATCH", answering(apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("modified")))), 10 * time.Minute, 30 * time.Second, 200},
		{"429 with Retry-After", answering(apierrors.NewTooManyRequests("later", 100)), 10 * time.Minute, 100 * time.Second, 7},
		{"429 for events", only("/events", answering(apierrors.NewTooManyRequests("later", 100))), 10 * time.Minute, 100 * time.Second, 9},
		{"no right", answering(forbidden), 10 * time.Minute, 30 * time.Second, 64},
		{"no right to read", only("GET", answering(forbidden)), 10 * time.Minute, 30 * time.Second, 64},
		{"no right to events", only("/events", answering(forbidden)), 10 * time.Minute, 30 * time.Second, 64},
		{"rights not loaded", answering(forbidden), 8 * time.Second, 8 * time.Second, 20},
		{"the answers are lost", lost, time.Second, 30 * time.Second, 8},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := owed(t, Options{}, tc.fault)
				defer w.run(nil)()
				wait(t, tc.lasts)
				if w.Debts() != 1 {
					t.Fatalf("%d debts while it lasts", w.Debts())
				}
				if got := len(w.arrived()); got > tc.requests {
					t.Errorf("%d requests while it lasted, at most %d", got, tc.requests)
				}
				w.broken(nil)
				wait(t, tc.pays)
				w.expectPaid(n)
				// Reading pods and creating events are two rights. A server that has just started
				// forbids everything for a moment.
				if complaints := w.lines.Count("deploy/rbac"); complaints > 2 || (complaints > 0) != strings.Contains(tc.about, "no right") {
					t.Errorf("complained %d times of missing rights", complaints)
				}
			})
		})
	}
}

// expectPaid checks that status and event exist once each, and that the queue is empty.
func (w *world) expectPaid(n Notice) {
	w.t.Helper()
	statuses, events := w.counts()
	if w.Debts() != 0 || len(w.saved) != 0 || statuses != 1 || events != 1 {
		w.t.Errorf("%d debts, %d saved; %d statuses, %d events", w.Debts(), len(w.saved), statuses, events)
	}
	if pod := w.pod(n.Name); pod.Status.Reason != ReasonEvicted || pod.Status.Message != n.Message || pod.Status.Phase != corev1.PodFailed {
		w.t.Errorf("status %+v", pod.Status)
	}
}

func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := owed(t, Options{}, refusedConnection)
		defer w.run(nil)()
		wait(t, time.Hour)
		pause := minDelay
		for i := 1; i < len(w.at); i++ {
			got := w.at[i].Sub(w.at[i-1])
			if got < pause || got > pause+pause/4+1 {
				t.Fatalf("pause %d is %v, expected %v and a quarter at most", i, got, pause)
			}
			pause = min(2*pause, maxDelay)
		}
		if len(w.at) < 100 || pause != maxDelay {
			t.Errorf("%d requests, the last pause %v", len(w.at), pause)
		}
		if w.lines.Count("Dropping") != 0 {
			t.Error("a debt was given up though the server never refused it")
		}
	})
}

func TestAServerThatRefusesForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := owed(t, Options{}, only("PATCH", answering(apierrors.NewInternalError(errors.New("webhook")))))
		defer w.run(nil)()
		wait(t, 59*time.Minute)
		if _, events := w.counts(); events != 1 || w.Debts() != 1 {
			t.Fatalf("%d events, %d debts: the event does not wait for the status", events, w.Debts())
		}
		wait(t, 2*time.Minute)
		if w.Debts() != 0 || len(w.saved) != 0 {
			t.Errorf("%d debts after an hour", w.Debts())
		}
		if w.lines.Count("Dropping a pod status update") != 1 || w.lines.Count(evictionMessage) == 0 {
			t.Error("what is given up is not in the log with its message")
		}
	})
}

func TestOneDebtDoesNotKeepTheOthers(t *testing.T) {
	for _, tc := range []struct {
		about string
		fault fault
	}{
		{"the server never answers for the first", only("/pods/p", hang)},
		{"the server refuses the first", only("/pods/p", answering(apierrors.NewInternalError(errors.New("webhook"))))},
		{"the connection breaks at the first", only("/pods/p", refusedConnection)},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := owed(t, Options{}, tc.fault)
				defer w.run(nil)()
				other := notice("q")
				w.with(func() { w.put(running(other)) })
				w.Enqueue(other)
				w.Commit(other.UID)
				wait(t, 15*time.Second)
				if debts := w.Outstanding(); len(debts) != 1 || debts[0].Notice.Name != "p" {
					t.Errorf("owed: %+v", debts)
				}
			})
		})
	}
}

func TestLateAnswersThatSettle(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tc := range []struct {
		about            string
		change           func(*world, *Notice)
		options          Options
		statuses, events int
	}{
		{"the pod is gone", func(w *world, n *Notice) { delete(w.pods, "shop/p") }, Options{}, 0, 1},
		{"another pod has its name", func(w *world, n *Notice) { w.pods["shop/p"].UID = "other" }, Options{}, 0, 1},
		{"the namespace goes", func(w *world, n *Notice) { w.fault = only("/events", answering(terminating)) }, Options{}, 1, 0},
		{"the namespace is gone", func(w *world, n *Notice) {
			w.fault = answering(apierrors.NewNotFound(corev1.Resource("namespaces"), "shop"))
		}, Options{}, 0, 0},
		{"a container has started since", func(w *world, n *Notice) {
			w.pods["shop/p"].Status.ContainerStatuses[0] = runs("id-new", n.Decided.Add(time.Second))
		}, Options{}, 0, 1},
		{"a container has started since, unreported", func(*world, *Notice) {}, Options{Running: node("id-new")}, 0, 1},
		{"nothing has started since", func(*world, *Notice) {}, Options{Running: node()}, 1, 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := owed(t, tc.options, nil)
				w.with(func() { tc.change(w, &n) })
				defer w.run(nil)()
				wait(t, time.Minute)
				if statuses, events := w.counts(); statuses != tc.statuses || events != tc.events || w.Debts() != 0 {
					t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
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
func TestAStartBetweenLookAndPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w, n := owed(t, Options{}, func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			if r.Method == http.MethodPatch {
				w.with(func() {
					pod := w.pods["shop/p"].DeepCopy()
					pod.Status.ContainerStatuses[0] = runs("id-new", time.Now())
					w.put(pod)
					w.fault = nil
				})
			}
			return nil, nil
		})
		defer w.run(nil)()
		wait(t, time.Minute)
		if statuses, events := w.counts(); statuses != 0 || events != 1 || w.Debts() != 0 {
			t.Errorf("%d statuses, %d events, %d debts", statuses, events, w.Debts())
		}
		if reads := strings.Count(strings.Join(w.arrived(), "\n"), "GET"); reads != 2 || w.pod("p").Status.Phase != corev1.PodRunning {
			t.Errorf("%d reads; pod of %s is %s", reads, n.Name, w.pod("p").Status.Phase)
		}
	})
}

func TestARuntimeThatDoesNotAnswerPutsTheStatusOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		w, n := owed(t, Options{Running: func(context.Context, string) ([]string, error) {
			if down {
				return nil, errors.New("no runtime")
			}
			return nil, nil
		}}, nil)
		stop := w.run(nil)
		wait(t, time.Minute)
		if statuses, events := w.counts(); statuses != 0 || events != 1 {
			t.Errorf("%d statuses, %d events", statuses, events)
		}
		stop()
		down = false
		defer w.run(nil)()
		wait(t, time.Minute)
		w.expectPaid(n)
	})
}

// The next run reports the contents of the state file, regardless of how far the kill proceeded.
func TestASuccessorPays(t *testing.T) {
	for _, tc := range []struct {
		about            string
		confirmed        bool
		running          []string
		statuses, events int
	}{
		{"killed", true, nil, 1, 1},
		{"killed, which nobody wrote down", false, nil, 1, 1},
		{"never killed", false, []string{"id-p"}, 0, 0},
		{"runs again", true, []string{"id-new"}, 0, 1},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newWorld(t, Options{Running: node(tc.running...)}), notice("p")
				n.Decided = time.Now()
				w.put(running(n))
				w.Enqueue(n)
				if tc.confirmed {
					w.Commit(n.UID)
				}
				file, err := json.Marshal(w.saved)
				if err != nil {
					t.Fatal(err)
				}
				var previous []PendingStatus
				if err := json.Unmarshal(file, &previous); err != nil {
					t.Fatal(err)
				}
				successor := New(w.client, "node-1", w.Reporter.log, func(d []PendingStatus) { w.saved = d }, w.options)
				w.Reporter = successor
				defer w.run(previous)()
				wait(t, 2*time.Minute)
				if statuses, events := w.counts(); statuses != tc.statuses || events != tc.events || len(w.saved) != 0 {
					t.Errorf("%d statuses, %d events, saved %+v", statuses, events, w.saved)
				}
			})
		})
	}
}

// Without Commit or Cancel, after 5 s the entry is checked against the state of the pod.
func TestNoWordOfTheKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{}), notice("p")
		w.put(running(n))
		defer w.run(nil)()
		w.Enqueue(n)
		wait(t, killTime-time.Millisecond)
		if got := w.arrived(); len(got) != 0 {
			t.Fatalf("requests %q before the kill", got)
		}
		wait(t, time.Second)
		w.expectPaid(n)
	})
}

func TestTheEventOfAnEvictionByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{}), notice("p")
		w.put(running(n))
		defer w.run(nil)()
		w.Announce(n)
		wait(t, time.Second)
		if got := w.arrived(); !slices.Equal(got, []string{"POST shop/events"}) || w.Debts() != 0 {
			t.Errorf("requests %q, %d debts", got, w.Debts())
		}
	})
}

func TestFaultyDebtsInTheStateFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{}), notice("p")
		w.put(running(n))
		defer w.run([]PendingStatus{{Status: true}, {Notice: n, Ended: true, Status: true, Event: true}})()
		wait(t, time.Second)
		w.expectPaid(n)
		if w.lines.Count("without a pod or a time") != 1 {
			t.Error("the faulty debt is not in the log")
		}
	})
}

// After an outage the backoff starts anew.
func TestAServerThatIsBackIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := owed(t, Options{}, refusedConnection)
		defer w.run(nil)()
		wait(t, 10*time.Minute)
		w.broken(nil)
		wait(t, 30*time.Second)
		w.broken(refusedConnection)
		before := len(w.arrived())
		w.Announce(notice("q"))
		wait(t, time.Second)
		if tries := len(w.arrived()) - before; tries < 2 {
			t.Errorf("%d tries in the first second of a second outage", tries)
		}
	})
}

// The result of an immediate request is not known yet: no other report runs concurrently.
func TestAPromptRequestUnderWayIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newWorld(t, Options{}), notice("p")
		w.put(running(n))
		w.broken(only("PATCH", func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
			<-time.After(time.Minute)
			return serve(), nil
		}))
		defer w.run(nil)()
		w.Enqueue(n)
		answer := make(chan error, 1)
		go func() { answer <- w.Evicted(t.Context(), n) }()
		synctest.Wait()
		w.Commit(n.UID)
		wait(t, 59*time.Second)
		if got := w.arrived(); !slices.Equal(got, []string{"PATCH shop/pods/p/status"}) {
			t.Errorf("requests %q", got)
		}
		if err := <-answer; err != nil {
			t.Error(err)
		}
		wait(t, time.Second)
		w.expectPaid(n)
	})
}
