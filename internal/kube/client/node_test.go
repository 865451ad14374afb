package client

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
)

func TestShuttingDown_FromReadyCondition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ready := func(status corev1.ConditionStatus, message string, age time.Duration) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: "KubeletNotReady", Message: message, LastHeartbeatTime: metav1.NewTime(now.Add(-age))}
	}
	other := ready(corev1.ConditionFalse, "node is shutting down", 0)
	other.Type = "NetworkUnavailable"
	for _, tc := range []struct {
		name       string
		conditions []corev1.NodeCondition
		want       bool
	}{
		{"no conditions", nil, false},
		{"ready", []corev1.NodeCondition{ready(corev1.ConditionTrue, "kubelet is posting ready status", 0)}, false},
		{"not ready without a shutdown", []corev1.NodeCondition{ready(corev1.ConditionFalse, "container runtime is down", 0)}, false},
		{"shutting down", []corev1.NodeCondition{ready(corev1.ConditionFalse, "node is shutting down", time.Second)}, true},
		{"shutting down and another reason", []corev1.NodeCondition{ready(corev1.ConditionFalse, "[container runtime is down, node is shutting down]", time.Minute)}, true},
		{"shutting down with a warning", []corev1.NodeCondition{ready(corev1.ConditionFalse, "node is shutting down. WARNING: CPU hardcapping unsupported", 0)}, true},
		{"shutting down in an old heartbeat", []corev1.NodeCondition{ready(corev1.ConditionFalse, "node is shutting down", 11*time.Minute)}, false},
		{"unknown status", []corev1.NodeCondition{ready(corev1.ConditionUnknown, "node is shutting down", 0)}, false},
		{"cancelled shutdown", []corev1.NodeCondition{ready(corev1.ConditionTrue, "kubelet is posting ready status", 0)}, false},
		{"message of another condition", []corev1.NodeCondition{other, ready(corev1.ConditionTrue, "kubelet is posting ready status", 0)}, false},
	} {
		got, why := shuttingDown(&corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}, now)
		if got != tc.want || got != strings.Contains(why, "node is shutting down") {
			t.Errorf("%s: %v, %q; want %v", tc.name, got, why, tc.want)
		}
	}
	if got, _ := shuttingDown(nil, now); got {
		t.Error("an unknown node is shutting down")
	}
}

func TestWatchNode_FollowsOwnNode(t *testing.T) {
	own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	own.Status.NodeInfo.KubeletVersion = "v1.36.3"
	own.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
	client := fake.NewClientset(own, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "u2"}})
	c := &Connection{node: "n1", log: slog.New(slog.DiscardHandler), watching: apitest.From(client), client: apitest.From(client), urgent: apitest.From(client)}
	changes := make(chan struct{}, 100)
	n := WatchNode(t.Context(), c, func() { changes <- struct{}{} })
	<-changes
	if !n.Synced() || n.UID() != "u1" || n.KubeletVersion() != "v1.36.3" || n.Object().ManagedFields != nil || n.Object().Status.Images != nil {
		t.Errorf("the node: %+v", n.Object())
	}
	down := own.DeepCopy()
	down.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "node is shutting down", LastHeartbeatTime: metav1.Now()}}
	for name, change := range map[string]*corev1.Node{"n1": down, "n2": {ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "u3"}}} {
		if _, err := client.CoreV1().Nodes().Update(t.Context(), change, metav1.UpdateOptions{}); err != nil {
			t.Fatal(name, err)
		}
	}
	<-changes
	if shutting, why := n.ShuttingDown(); !shutting || n.UID() != "u1" {
		t.Errorf("shutting down %v %q, UID %s", shutting, why, n.UID())
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	<-changes
	if n.Object() != nil || !n.Synced() {
		t.Errorf("a deleted node is still %v", n.Object())
	}
}

// Other objects and other Nodes change nothing.
func TestNodeStore_IgnoresOtherNodes(t *testing.T) {
	var changes atomic.Int32
	s := nodeStore{&Node{name: "n1", changed: func() { changes.Add(1) }}}
	own := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "u2"}}
	if err := s.Replace([]any{own, other}, "1"); err != nil || s.UID() != "u1" || changes.Load() != 1 {
		t.Fatalf("%v, UID %s, %d changes", err, s.UID(), changes.Load())
	}
	if err := s.Replace([]any{&corev1.Pod{}}, "2"); err == nil {
		t.Error("a list of pods was accepted")
	}
	if err := s.Update(&corev1.Pod{}); err == nil {
		t.Error("a pod was accepted")
	}
	if s.Update(other) != nil || s.Delete(other) != nil || s.Resync() != nil || s.UID() != "u1" || changes.Load() != 1 {
		t.Errorf("another Node had an effect: UID %s, %d changes", s.UID(), changes.Load())
	}
	if err := s.Replace(nil, "3"); err != nil || s.Object() != nil || !s.Synced() {
		t.Errorf("missing Node: %v, %v", s.Object(), err)
	}
}
