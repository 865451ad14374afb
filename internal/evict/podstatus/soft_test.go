package podstatus

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// budget is the server's refusal because of a PodDisruptionBudget.
func budget(after int) *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", after)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The budget b needs 2 healthy pods and has 2"}}
	return err
}

// twoBudgets is kube-apiserver's text (1.37.2).
const twoBudgets = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

func TestDirect_ClassifiesAnswers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault fault
		grace int64
		want  Answer
		given int64 // grace period received by the server, 0: none
		fails bool
	}{
		{name: "allowed", grace: 30, want: Answer{Outcome: Evicting}, given: 30},
		{name: "grace period 0", grace: 0, want: Answer{Outcome: Evicting}, given: 1},
		{name: "budget exhausted", fault: answering(budget(0)), want: Answer{Refused, "The budget b needs 2 healthy pods and has 2", 0}},
		{name: "budget not up to date", fault: answering(budget(10)), want: Answer{Refused, "The budget b needs 2 healthy pods and has 2", 10 * time.Second}},
		{name: "server busy", fault: answering(apierrors.NewTooManyRequests("later", 1)), fails: true},
		{name: "no such pod", fault: answering(apierrors.NewNotFound(corev1.Resource("pods"), "p")), want: Answer{Outcome: Gone}},
		{name: "two budgets for one pod", fault: answering(apierrors.NewInternalError(errors.New(twoBudgets))), want: Answer{Refused, "Internal error occurred: " + twoBudgets, 0}},
		{name: "store without leader", fault: answering(apierrors.NewInternalError(errors.New("etcdserver: leader changed"))), fails: true},
		{name: "webhook that fails", fault: answering(apierrors.NewInternalError(errors.New("failed calling webhook"))), fails: true},
		{name: "not found, from a proxy", fault: answering(apierrors.NewGenericServerResponse(404, "POST", corev1.Resource("pods"), "p", "no backend", 0, true)), fails: true},
		{name: "conflict not about the UID", fault: only("POST", answering(apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("modified")))), fails: true},
		{name: "no right", fault: answering(apierrors.NewForbidden(corev1.Resource("pods/eviction"), "p", errors.New("RBAC"))), fails: true},
		{name: "no connection", fault: refusedConnection, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, n := newHarness(t, Options{}), notice("p")
			h.put(running(n))
			h.broken(tc.fault)
			soft, err := NewSoft("direct", h.client)
			if err != nil {
				t.Fatal(err)
			}
			got, err := soft.Request(t.Context(), n, tc.grace)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %+v, error %v, want %+v", got, err, tc.want)
			}
			if given := h.pod("p").DeletionGracePeriodSeconds; (given == nil) != (tc.given == 0) || given != nil && *given != tc.given {
				t.Errorf("got grace period %v, want %d", given, tc.given)
			}
		})
	}
}

func TestDirect_BindsToUID(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	h.put(running(n))
	n.UID = "0a0b-older"
	soft, err := NewSoft("direct", h.client)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := soft.Request(t.Context(), n, 30); err != nil || got.Outcome != Gone {
		t.Errorf("got %+v, error %v", got, err)
	}
	if h.pod("p").DeletionGracePeriodSeconds != nil {
		t.Error("another pod was evicted")
	}
}

func TestMark_SetsAndRemovesCondition(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	n.UID = "0a0b0c0d-0001"
	h.put(running(n))
	soft, err := NewSoft(DefaultWay, h.client)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a repetition changes nothing
		if got, err := soft.Request(t.Context(), n, 30); err != nil || got != (Answer{Outcome: Asked}) {
			t.Fatalf("got %+v, error %v", got, err)
		}
	}
	pod := h.pod("p")
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == EvictionRequested })
	if i < 0 || len(pod.Status.Conditions) != 2 || pod.Status.Phase != corev1.PodRunning {
		t.Fatalf("got status %+v", pod.Status)
	}
	want := corev1.PodCondition{Type: EvictionRequested, Status: "True", Reason: "MemoryPressure", ObservedGeneration: 3,
		LastTransitionTime: metav1.NewTime(decided.Truncate(time.Second)),
		Message:            strings.TrimSuffix(evictionMessage, " ") + " [plimsoll.dev cause=memory.available gracePeriodSeconds=30]"}
	got := pod.Status.Conditions[i]
	got.LastTransitionTime = metav1.NewTime(got.LastTransitionTime.UTC())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r, marked, err := Marked(pod)
	if want := (Request{"shop", "p", n.UID, "memory.available", 30, decided.Truncate(time.Second)}); err != nil || !marked || r != want {
		t.Errorf("Marked: got %+v, %v, error %v", r, marked, err)
	}
	if err := soft.Withdraw(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, marked, _ := Marked(h.pod("p")); marked || len(h.pod("p").Status.Conditions) != 1 {
		t.Errorf("after Withdraw: got conditions %+v", h.pod("p").Status.Conditions)
	}
}

// The server refuses what would make the object too large. The refusal is an answer for this pod, and a mark that cannot be
// removed is an error.
func TestMark_RefusedByServer(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	h.put(running(n))
	h.broken(answering(apierrors.NewInternalError(errors.New("etcdserver: request is too large"))))
	m := &mark{h.client}
	got, err := m.Request(t.Context(), n, 30)
	if err != nil || got.Outcome != Refused || !strings.Contains(got.Message, "too large") {
		t.Errorf("got %+v, error %v", got, err)
	}
	if err := m.Withdraw(t.Context(), n); err == nil {
		t.Error("Withdraw: got no error")
	}
}

func TestMark_HandlesMissingPod(t *testing.T) {
	h, n := newHarness(t, Options{}), notice("p")
	m := &mark{h.client}
	if got, err := m.Request(t.Context(), n, 30); err != nil || got.Outcome != Gone {
		t.Errorf("got %+v, error %v", got, err)
	}
	if err := m.Withdraw(t.Context(), n); err != nil {
		t.Error(err)
	}
	h.broken(refusedConnection)
	if _, err := m.Request(t.Context(), n, 30); err == nil {
		t.Error("Request without a connection: got no error")
	}
	if err := m.Withdraw(t.Context(), n); err == nil {
		t.Error("Withdraw without a connection: got no error")
	}
}

func TestMarked_RejectsForeignConditions(t *testing.T) {
	for _, message := range []string{
		"", "please", "[plimsoll.dev ]", "[plimsoll.dev cause=memory.available]",
		"[plimsoll.dev cause=memory.available gracePeriodSeconds=30", "[plimsoll.dev cause=memory.available gracePeriodSeconds=30] ",
		"[plimsoll.dev cause=memory.available gracePeriodSeconds=0]", "[plimsoll.dev cause=memory.available gracePeriodSeconds=-1]",
		"[plimsoll.dev cause=memory.available gracePeriodSeconds=+3]", "[plimsoll.dev cause=memory.available gracePeriodSeconds=99999999999]",
		"[plimsoll.dev cause=hunger gracePeriodSeconds=30]", "[plimsoll.dev gracePeriodSeconds=30 cause=memory.available]",
	} {
		n := notice("p")
		n.UID = "0a0b"
		pod := running(n)
		pod.Status.Conditions = []corev1.PodCondition{{Type: EvictionRequested, Status: corev1.ConditionTrue, Message: message}}
		if r, marked, err := Marked(pod); err == nil || !marked {
			t.Errorf("%q: got request %+v", message, r)
		}
	}
	pod := running(notice("p"))
	pod.Status.Conditions = []corev1.PodCondition{{Type: EvictionRequested, Status: corev1.ConditionFalse}}
	if _, marked, err := Marked(pod); marked || err != nil {
		t.Errorf("condition False: got marked or error %v", err)
	}
}

func TestWays_ListsDefaultFirst(t *testing.T) {
	names, what := Ways()
	if !slices.Equal(names, []string{"status", "direct"}) || names[0] != DefaultWay || len(what) != len(names) {
		t.Errorf("got ways %q, %q", names, what)
	}
	if _, err := NewSoft("force", nil); err == nil || !strings.Contains(err.Error(), "status, direct") {
		t.Errorf("got error %v, want one that lists the ways", err)
	}
}

func TestRequest_IsChecked(t *testing.T) {
	good := Request{"shop", "p.1", "0a-0b", "memory.available", 30, decided.Truncate(time.Second)}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Request){
		"no namespace":          func(r *Request) { r.Namespace = "" },
		"invalid namespace":     func(r *Request) { r.Namespace = "Shop" },
		"invalid name":          func(r *Request) { r.Name = "p/1" },
		"no UID":                func(r *Request) { r.UID = "" },
		"invalid UID":           func(r *Request) { r.UID = "x;y" },
		"UID too long":          func(r *Request) { r.UID = strings.Repeat("a", maxUID+1) },
		"unknown signal":        func(r *Request) { r.Cause = "memory" },
		"no grace period":       func(r *Request) { r.GracePeriodSeconds = 0 },
		"grace period too long": func(r *Request) { r.GracePeriodSeconds = maxGrace + 1 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.check(); err == nil {
			t.Errorf("%s: %+v was accepted", name, bad)
		}
	}
}

// FuzzMarked checks that a request read from any condition is one for that pod.
func FuzzMarked(f *testing.F) {
	f.Add("low on memory. [plimsoll.dev cause=memory.available gracePeriodSeconds=30]")
	f.Add("[plimsoll.dev cause= gracePeriodSeconds=][plimsoll.dev cause=pid.available gracePeriodSeconds=1]")
	f.Fuzz(func(t *testing.T, message string) {
		n := notice("p")
		n.UID = "0a0b"
		pod := running(n)
		pod.Status.Conditions = []corev1.PodCondition{{Type: EvictionRequested, Status: corev1.ConditionTrue, Message: message}}
		r, marked, err := Marked(pod)
		if !marked {
			t.Fatal("the condition was not found")
		}
		if err == nil && (r.check() != nil || r.UID != n.UID || r.Name != "p" || r.Namespace != "shop") {
			t.Errorf("%q: got request %+v", message, r)
		}
	})
}

// A refusal returns immediately: the client's own wait for a Retry-After would hide it for minutes.
func TestDirect_ReturnsRefusalImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHarness(t, Options{}), notice("p")
		h.put(running(n))
		h.broken(answering(budget(60)))
		begun := time.Now()
		if got, err := (&direct{h.client}).Request(t.Context(), n, 30); err != nil || got.Outcome != Refused || time.Since(begun) != 0 {
			t.Errorf("got %+v, error %v after %v", got, err, time.Since(begun))
		}
	})
}
