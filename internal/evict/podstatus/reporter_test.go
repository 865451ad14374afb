package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFormOfTheStatus(t *testing.T) {
	with := notice("p")
	without := with
	without.DisruptionTarget, without.Cause = false, "emptyDir"
	for _, tc := range []struct {
		about, version string
		n              Notice
		want           string
	}{
		{"at once", "", with, `{"metadata":{"uid":"0a0b0c0d-p"},"status":{"phase":"Failed","reason":"Evicted","message":"` + evictionMessage + `",` +
			`"conditions":[{"type":"plimsoll.dev/Evicted","status":"True","reason":"MemoryPressure","message":"` + evictionMessage + `",` +
			`"lastTransitionTime":"2026-07-01T12:00:00Z","observedGeneration":3},` +
			`{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet","message":"` + evictionMessage + `",` +
			`"lastTransitionTime":"2026-07-01T12:00:00Z","observedGeneration":3}]}}`},
		{"late, above a limit of its own", "7", without, `{"metadata":{"uid":"0a0b0c0d-p","resourceVersion":"7"},` +
			`"status":{"phase":"Failed","reason":"Evicted","message":"` + evictionMessage + `",` +
			`"conditions":[{"type":"plimsoll.dev/Evicted","status":"True","reason":"Evicted","message":"` + evictionMessage + `",` +
			`"lastTransitionTime":"2026-07-01T12:00:00Z","observedGeneration":3}]}}`},
	} {
		got, err := json.Marshal(evicted(&tc.n, tc.version))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", tc.about, err, got, tc.want)
		}
	}
}

func TestFormOfTheEvent(t *testing.T) {
	n := notice("p")
	e := event(&n, "node-1")
	want := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: e.Name, Annotations: n.Annotations},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "p", UID: "0a0b0c0d-p"},
		Type:           "Warning", Reason: "Evicted", Message: evictionMessage, Count: 1,
		FirstTimestamp: metav1.NewTime(decided), LastTimestamp: metav1.NewTime(decided),
		Source: corev1.EventSource{Component: "plimsoll", Host: "node-1"}, ReportingController: "plimsoll", ReportingInstance: "node-1",
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestPromptStatus(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "p")
	for _, tc := range []struct {
		about string
		fault fault
		fails bool
		gone  bool
		owed  bool // the status is pending, afterwards
	}{
		{"told", nil, false, false, false},
		{"no such pod", answering(gone), true, true, false},
		{"another pod of this name", answering(wrongUID("p")), true, true, false},
		{"a load balancer without a server", balancer, true, false, true},
		{"conflict", answering(apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("busy"))), true, false, true},
		{"410", answering(apierrors.NewResourceExpired("expired")), true, false, true},
		{"too many requests", answering(apierrors.NewTooManyRequests("later", 7)), true, false, true},
		{"500", answering(apierrors.NewInternalError(errors.New("etcd"))), true, false, true},
		{"no right", answering(apierrors.NewForbidden(corev1.Resource("pods/status"), "p", errors.New("RBAC"))), true, false, true},
		{"no connection", refusedConnection, true, false, true},
		{"no answer", hang, true, false, true},
		{"the answer is lost", lost, true, false, true},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newWorld(t, Options{}), notice("p")
				w.put(running(n))
				w.Enqueue(n)
				w.broken(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				begun := time.Now()
				err := w.Evicted(ctx, n)
				most := time.Duration(0) // the wait ends with the answer, regardless of its Retry-After
				if tc.about == "no answer" {
					most = 300 * time.Millisecond
				}
				if took := time.Since(begun); took > most {
					t.Errorf("took %v, at most %v", took, most)
				}
				if (err != nil) != tc.fails || errors.Is(err, ErrGone) != tc.gone {
					t.Errorf("error %v", err)
				}
				if len(w.saved) != 1 || w.saved[0].Status != tc.owed || !w.saved[0].Event {
					t.Errorf("the store has %+v", w.saved)
				}
				if got := w.arrived(); !slices.Equal(got, []string{"PATCH shop/pods/p/status"}) {
					t.Errorf("requests %q: one patch is all there are rights for", got)
				}
			})
		})
	}
}

func TestOtherConditionsStay(t *testing.T) {
	w, n := newWorld(t, Options{}), notice("p")
	w.put(running(n))
	w.Enqueue(n)
	if err := w.Evicted(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	pod := w.pod("p")
	if pod.Status.Phase != corev1.PodFailed || len(pod.Status.Conditions) != 3 || len(pod.Status.ContainerStatuses) != 1 {
		t.Errorf("status %+v", pod.Status)
	}
}

func TestAPodThatWasSpared(t *testing.T) {
	for _, tc := range []struct {
		about  string
		fault  fault
		told   bool
		events int
	}{
		{"before it was told", nil, false, 0},
		{"after it was told, the event explains it", nil, true, 1},
		{"after the server could not be told", refusedConnection, true, 0},
		{"because it was gone already", answering(apierrors.NewNotFound(corev1.Resource("pods"), "p")), true, 0},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, n := newWorld(t, Options{}), notice("p")
				w.put(running(n))
				defer w.run(nil)()
				w.Enqueue(n)
				if tc.told {
					w.broken(tc.fault)
					_ = w.Evicted(t.Context(), n)
					w.broken(nil)
				}
				w.Cancel(n.UID)
				wait(t, time.Minute)
				if _, events := w.counts(); events != tc.events || w.Debts() != 0 {
					t.Errorf("%d events, %d debts", events, w.Debts())
				}
			})
		})
	}
}

// wait advances virtual time.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func TestOweAndAskOnce(t *testing.T) {
	w, n := newWorld(t, Options{}), notice("p")
	w.put(running(n))
	if err := w.Evicted(t.Context(), n); err == nil {
		t.Error("a status that nobody owes was told")
	}
	w.Enqueue(n)
	w.Enqueue(n)
	w.Enqueue(Notice{Name: "nobody"})
	if w.Debts() != 1 || len(w.saved) != 1 {
		t.Fatalf("%d debts, the store has %+v", w.Debts(), w.saved)
	}
	for range 2 {
		if err := w.Evicted(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if statuses, _ := w.counts(); statuses != 1 {
		t.Errorf("told %d times", statuses)
	}
	w.Commit(n.UID)
	later := n
	later.Decided = decided.Add(time.Minute)
	w.Enqueue(later)
	w.Commit(n.UID)
	if err := w.Evicted(t.Context(), later); err == nil {
		t.Error("a prompt status after the kill was sent without a look")
	}
}

func TestALedgerHasAnEnd(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range maxDebts + 1 {
		n := notice("p")
		n.Decided, n.Killed = decided.Add(time.Duration(i)*time.Second), nil
		w.Enqueue(n)
	}
	debts := w.Outstanding()
	if len(debts) != maxDebts || !debts[0].Notice.Decided.Equal(decided.Add(time.Second)) {
		t.Errorf("%d debts, the first decided at %s", len(debts), debts[0].Notice.Decided)
	}
	if w.lines.Count("too many are pending") != 1 {
		t.Error("what was given up is not in the log")
	}
	for i, d := range debts {
		if d.Status != (i == len(debts)-1) {
			t.Fatalf("debt %d: status owed %v; only the newest of a pod is", i, d.Status)
		}
	}
}

func TestNamesOfEvents(t *testing.T) {
	n := notice("p")
	name := eventName(&n)
	file, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var again Notice
	if err := json.Unmarshal(file, &again); err != nil {
		t.Fatal(err)
	}
	if got := eventName(&again); got != name {
		t.Errorf("%q before, %q after the state file", name, got)
	}
	later, other := n, n
	later.Decided = decided.Add(1)
	other.UID += "0"
	if eventName(&later) == name || eventName(&other) == name {
		t.Error("two evictions have one event")
	}
}
