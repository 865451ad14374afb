package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPatch_HasKubeletFormat(t *testing.T) {
	with := notice("p")
	without := with
	without.DisruptionTarget, without.Cause = false, "emptyDir"
	for _, tc := range []struct {
		name, version string
		n             Notice
		want          string
	}{
		{"immediate", "", with, `{"metadata":{"uid":"0a0b0c0d-p"},"status":{"phase":"Failed","reason":"Evicted","message":"` + evictionMessage + `",` +
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
			t.Errorf("%s: %v\ngot  %s\nwant %s", tc.name, err, got, tc.want)
		}
	}
}

func TestEvent_HasKubeletFormat(t *testing.T) {
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

// The explanation follows the kubelet's message in the event, and is in no status.
func TestEvent_HasExplanationBehindMessage(t *testing.T) {
	n := notice("p")
	n.Message, n.Explanation = "The node was low on resource: memory. ", "Plimsoll evicted this pod."
	if got, want := event(&n, "node-1").Message, n.Message+n.Explanation; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	text, err := json.Marshal(evicted(&n, ""))
	if err != nil || strings.Contains(string(text), "Plimsoll evicted") || !strings.Contains(string(text), `"message":"The node was low on resource: memory. "`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestEvicted_ReportsWithOnePatch(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "p")
	for _, tc := range []struct {
		name    string
		fault   fault
		fails   bool
		gone    bool
		pending bool // the status is pending, afterwards
	}{
		{"success", nil, false, false, false},
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
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{}), notice("p")
				h.put(running(n))
				h.Enqueue(n)
				h.broken(tc.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				begun := time.Now()
				err := h.Evicted(ctx, n)
				limit := time.Duration(0) // the wait ends with the answer, regardless of its Retry-After
				if tc.name == "no answer" {
					limit = 300 * time.Millisecond
				}
				if took := time.Since(begun); took > limit {
					t.Errorf("got a duration of %v, want at most %v", took, limit)
				}
				if (err != nil) != tc.fails || errors.Is(err, ErrGone) != tc.gone {
					t.Errorf("got error %v", err)
				}
				if len(h.saved) != 1 || h.saved[0].Status != tc.pending || !h.saved[0].Event {
					t.Errorf("got stored %+v", h.saved)
				}
				if got := h.arrived(); !slices.Equal(got, []string{"PATCH shop/pods/p/status"}) {
					t.Errorf("got requests %q, want one patch", got)
				}
			})
		})
	}
}

// A missing right is reported once until a status is accepted.
func TestEvicted_ReportsRefusalOnce(t *testing.T) {
	refusals := 0
	h := newHarness(t, Options{Refused: func() { refusals++ }})
	evict := func(name string, f fault) {
		n := notice(name)
		h.put(running(n))
		h.Enqueue(n)
		h.broken(f)
		if err := h.Evicted(t.Context(), n); (err != nil) != (f != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	forbidden := answering(apierrors.NewForbidden(corev1.Resource("pods/status"), "p", errors.New("RBAC")))
	evict("a", forbidden)
	evict("b", forbidden)
	if refusals != 1 {
		t.Errorf("%d refusals were reported, want 1", refusals)
	}
	evict("c", nil)
	evict("d", answering(apierrors.NewInternalError(errors.New("etcd"))))
	if refusals != 1 {
		t.Errorf("%d refusals were reported, want 1: another error is none", refusals)
	}
	evict("e", forbidden)
	if refusals != 2 {
		t.Errorf("%d refusals were reported, want 2: a status had been accepted", refusals)
	}
}

func TestEvicted_PreservesOtherConditions(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	h.put(running(n))
	h.Enqueue(n)
	if err := h.Evicted(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	pod := h.pod("p")
	if pod.Status.Phase != corev1.PodFailed || len(pod.Status.Conditions) != 3 || len(pod.Status.ContainerStatuses) != 1 {
		t.Errorf("got status %+v", pod.Status)
	}
}

func TestCancel_KeepsOnlyEventOfReportedStatus(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fault    fault
		reported bool
		events   int
	}{
		{"before the report", nil, false, 0},
		{"after the report, event remains", nil, true, 1},
		{"after a failed report", refusedConnection, true, 0},
		{"pod gone", answering(apierrors.NewNotFound(corev1.Resource("pods"), "p")), true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, n := newHarness(t, Options{}), notice("p")
				h.put(running(n))
				defer h.run(nil)()
				h.Enqueue(n)
				if tc.reported {
					h.broken(tc.fault)
					_ = h.Evicted(t.Context(), n)
					h.broken(nil)
				}
				h.Cancel(n.UID)
				wait(t, time.Minute)
				if _, events := h.counts(); events != tc.events || h.PendingCount() != 0 {
					t.Errorf("got %d events, %d pending", events, h.PendingCount())
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

func TestReporter_EnqueuesAndReportsOnce(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	h.put(running(n))
	if err := h.Evicted(t.Context(), n); err == nil {
		t.Error("a status that was not enqueued was reported")
	}
	h.Enqueue(n)
	h.Enqueue(n)
	h.Enqueue(Notice{Name: "incomplete"})
	if h.PendingCount() != 1 || len(h.saved) != 1 {
		t.Fatalf("got %d pending, stored %+v, want 1 and 1", h.PendingCount(), h.saved)
	}
	for range 2 {
		if err := h.Evicted(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if statuses, _ := h.counts(); statuses != 1 {
		t.Errorf("got %d reports, want 1", statuses)
	}
	h.Commit(n.UID)
	later := n
	later.Decided = decided.Add(time.Minute)
	h.Enqueue(later)
	h.Commit(n.UID)
	if err := h.Evicted(t.Context(), later); err == nil {
		t.Error("an immediate status was sent after the kill")
	}
}

func TestQueue_IsBounded(t *testing.T) {
	h := newHarness(t, Options{})
	for i := range maxPending + 1 {
		n := notice("p")
		n.Decided, n.Killed = decided.Add(time.Duration(i)*time.Second), nil
		h.Enqueue(n)
	}
	left := h.Outstanding()
	if len(left) != maxPending || !left[0].Notice.Decided.Equal(decided.Add(time.Second)) {
		t.Errorf("got %d pending, the first decided at %s", len(left), left[0].Notice.Decided)
	}
	if h.lines.Count("too many are pending") != 1 {
		t.Error("the dropped status is not in the log")
	}
	for i, d := range left {
		if d.Status != (i == len(left)-1) {
			t.Fatalf("entry %d: got status pending %v, want it only for the newest of a pod", i, d.Status)
		}
	}
}

func TestEventName_IdentifiesEviction(t *testing.T) {
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
		t.Errorf("got %q before and %q after the state file", name, got)
	}
	later, other := n, n
	later.Decided = decided.Add(1)
	other.UID += "0"
	if eventName(&later) == name || eventName(&other) == name {
		t.Error("two evictions have the same event name")
	}
}
