package rbac_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

const (
	evictionMessage = "The node was low on resource: memory. "
	markOfAgent     = `{"type":"plimsoll.dev/Evicted","status":"True","reason":"MemoryPressure","message":"` + evictionMessage + `","lastTransitionTime":"2026-07-01T12:00:00Z"}`
	disruption      = `{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet","message":"` + evictionMessage + `","lastTransitionTime":"2026-07-01T12:00:00Z"}`
	notReady        = `{"type":"Ready","status":"False","lastTransitionTime":"2026-07-01T12:00:01Z"}`
	evictedByAgent  = `{"status":{"phase":"Failed","reason":"Evicted","message":"` + evictionMessage + `","conditions":[` + notReady + `,` + markOfAgent + `,` + disruption + `]}}`
)

// TestEvicted_KeepsReason overwrites evictions as a kubelet's user, with the mutating policy in
// force: reason and message stay, and all other fields are as written.
func TestEvicted_KeepsReason(t *testing.T) {
	w := newWriter(t, "evicted-keeps-reason.yaml")
	w.inForce("the policy restores a reason", func() bool {
		w.set(evictedByAgent)
		return w.write("kubelet", `{"status":{"reason":null}}`) == nil && w.status().Reason == "Evicted"
	})
	for _, c := range []struct {
		what, before, writer, writes string
		want                         func(*corev1.PodStatus) // changes the written status
	}{
		{"reason and message lost", evictedByAgent, "kubelet", `{"status":{"reason":null,"message":null}}`, restored},
		{"phase lost, too", evictedByAgent, "kubelet", `{"status":{"phase":"Running","reason":null,"message":null}}`, restored},
		{"another reason", evictedByAgent, "kubelet", `{"status":{"reason":"NodeShutdown","message":"other"}}`, restored},
		{"conditions lost", evictedByAgent, "kubelet", `{"status":{"reason":null,"message":null,"conditions":[` + notReady + `]}}`, restored},
		{"new container status", evictedByAgent, "kubelet",
			`{"status":{"reason":null,"message":null,"containerStatuses":[{"name":"app","image":"none","imageID":"none","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":137}}}]}}`, restored},
		{"nothing lost", evictedByAgent, "kubelet", `{"status":{"podIP":"192.0.2.9","podIPs":[{"ip":"192.0.2.9"}]}}`, nil},

		{"write by an administrator", evictedByAgent, "admin", `{"status":{"reason":null,"message":null}}`, nil},
		{"evicted by the kubelet", `{"status":{"phase":"Failed","reason":"Evicted","message":"m","conditions":[` + notReady + `,` + disruption + `]}}`, "kubelet", `{"status":{"reason":null,"message":null}}`, nil},
		{"running pod", `{"status":{"phase":"Running","conditions":[` + notReady + `,` + markOfAgent + `]}}`, "kubelet", `{"status":{"phase":"Failed"}}`, nil},
		{"condition Evicted is False", `{"status":{"phase":"Failed","reason":"Evicted","conditions":[{"type":"plimsoll.dev/Evicted","status":"False"}]}}`, "kubelet", `{"status":{"reason":null}}`, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			w.t, w.place.t = t, t
			w.set(c.before)
			want := w.after(c.writes)
			if c.want != nil {
				c.want(&want)
			}
			w.must(w.write(c.writer, c.writes))
			w.same(want)
		})
	}
}

// restored applies the policy's changes to a status.
func restored(s *corev1.PodStatus) {
	var eviction corev1.Pod
	if err := json.Unmarshal([]byte(evictedByAgent), &eviction); err != nil {
		panic(err)
	}
	s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", evictionMessage
	s.Conditions = eviction.Status.Conditions
}

// TestEvicted_KeepsReasonWithoutMutation covers a server that restores no reason: the
// validating policy accepts updates by a kubelet, and refuses a mere loss.
func TestEvicted_KeepsReasonWithoutMutation(t *testing.T) {
	w := newWriter(t, "evicted-stays-evicted.yaml")
	w.inForce("the policy refuses a running pod", func() bool {
		w.set(evictedByAgent)
		return apierrors.IsForbidden(w.write("kubelet", `{"status":{"phase":"Running"}}`))
	})
	const lost = `"reason":null,"message":null`
	for _, c := range []struct {
		what, before, writer, writes string
		refused                      bool
	}{
		{"only reason and message", evictedByAgent, "kubelet", `{"status":{` + lost + `}}`, true},
		{"only the message", evictedByAgent, "kubelet", `{"status":{"message":null}}`, true},
		{"with a new container status", evictedByAgent, "kubelet", `{"status":{` + lost + `,"containerStatuses":[{"name":"app","image":"none","imageID":"none","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":137}}}]}}`, false},
		{"with new readiness", evictedByAgent, "kubelet", `{"status":{` + lost + `,"conditions":[{"type":"Ready","status":"False","reason":"PodFailed"},` + markOfAgent + `,` + disruption + `]}}`, false},
		{"with a lost address", evictedByAgent, "kubelet", `{"status":{` + lost + `,"podIP":null,"podIPs":null}}`, false},
		{"by an administrator", evictedByAgent, "admin", `{"status":{` + lost + `}}`, false},
		{"of a pod that was not evicted", `{"status":{"phase":"Failed","reason":"DeadlineExceeded","message":"m"}}`, "kubelet", `{"status":{` + lost + `}}`, false},
		{"unchanged status", evictedByAgent, "kubelet", evictedByAgent, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			w.t, w.place.t = t, t
			w.set(c.before)
			if err := w.write(c.writer, c.writes); apierrors.IsForbidden(err) != c.refused || !c.refused && err != nil {
				t.Errorf("got refused %t, want %t: %v", apierrors.IsForbidden(err), c.refused, err)
			}
		})
	}
	t.Run("of a deleted pod", func(t *testing.T) {
		w.t, w.place.t = t, t
		w.set(evictedByAgent)
		w.must(w.admin.CoreV1().Pods(victims).Delete(t.Context(), w.pod.Name, metav1.DeleteOptions{}))
		w.must(w.write("kubelet", `{"status":{`+lost+`}}`))
	})
}

// writer writes the status of a place's pod as either user.
type writer struct {
	t *testing.T
	*place
	clients map[string]kubernetes.Interface
}

func newWriter(t *testing.T, policy string) *writer {
	t.Helper()
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	s := newServer(t, c.Admin(), theAgent)
	s.apply(t, agentFile)
	if err := c.Namespace(t.Context(), victims); err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, place: newPlace(t, s.admin, "bow"), clients: map[string]kubernetes.Interface{"admin": s.admin}}
	server, err := s.admin.Discovery().ServerVersion()
	w.must(err)
	if minor := server.Minor; minor != "34" { // docs/reference/compatibility.md
		w.env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}} // equal keys, which no merge may object to
	}
	w.clients["kubelet"], err = kubernetes.NewForConfig(c.As("system:node:bow", "system:nodes"))
	w.must(err)
	w.must(c.ApplyPolicy(t.Context(), policy))
	return w
}

func (w *writer) inForce(what string, so func() bool) {
	w.t.Helper()
	until(w.t, what, so)
}

// set creates a new pod with a status.
func (w *writer) set(status string) {
	w.t.Helper()
	w.reset()
	w.patchPod(status)
}

// after returns the status with a patch fully applied.
func (w *writer) after(patch string) corev1.PodStatus {
	w.t.Helper()
	pod, err := w.admin.CoreV1().Pods(victims).Patch(w.t.Context(), w.pod.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	w.must(err)
	return pod.Status
}

func (w *writer) write(user, patch string) error {
	_, err := w.clients[user].CoreV1().Pods(victims).Patch(w.t.Context(), w.pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func (w *writer) status() corev1.PodStatus {
	w.t.Helper()
	pod, err := w.admin.CoreV1().Pods(victims).Get(w.t.Context(), w.pod.Name, metav1.GetOptions{})
	w.must(err)
	return pod.Status
}

func (w *writer) same(want corev1.PodStatus) {
	w.t.Helper()
	byType := cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type })
	if diff := cmp.Diff(want, w.status(), byType, cmpopts.EquateApproxTime(0)); diff != "" {
		w.t.Errorf("the status (-want +got):\n%s", diff)
	}
}
