package recorder_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// TestRecorder_RecordsStatesAndRequests: a record contains the states in order and the requests by user,
// including rejected ones, across a lost connection.
func TestRecorder_RecordsStatesAndRequests(t *testing.T) {
	cluster.Need(t)
	audit, err := recorder.NewAudit(t.TempDir(), "admin", "outsider")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Make(t, cluster.Options{
		Components: cluster.APIServer,
		Args:       map[cluster.Components][]string{cluster.APIServer: audit.Flags()},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := kubernetes.NewForConfig(c.Link.Config(c.Admin()))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.Start(t.Context(), reader, audit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	}()
	changesOfANode(ctx, t, rec, admin)
	deletedAndRefused(ctx, t, rec, admin, c)
	acrossALostConnection(ctx, t, rec, admin, c)
}

func until(ctx context.Context, t *testing.T, rec *recorder.Recorder, what string, so func() bool) {
	t.Helper()
	if err := rec.Until(ctx, so); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func changesOfANode(ctx context.Context, t *testing.T, rec *recorder.Recorder, admin kubernetes.Interface) {
	nodes := admin.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}}
		if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, rec, "the last taint", func() bool { return rec.Node("a").Taint("k", corev1.TaintEffectNoExecute) != nil })
	states := rec.NodeStates("a")
	if len(states) != 3 || states[1].Tainted(corev1.TaintEffectNoSchedule) != "k" || states[2].Tainted(corev1.TaintEffectNoSchedule) != "" {
		t.Errorf("states of the node: %+v", states)
	}
	if kind := rec.Node("a").Is(corev1.NodeReady); kind != "" {
		t.Errorf("a node without a report has Ready %q, want none", kind)
	}
	if n := rec.Node("b"); n.Taint("k", corev1.TaintEffectNoExecute) != nil || n.Tainted(corev1.TaintEffectNoExecute) != "" || n.Is(corev1.NodeReady) != "" {
		t.Errorf("got a state of a missing node: %+v", n)
	}
	until(ctx, t, rec, "three requests", func() bool {
		return len(rec.Writes(func(w *recorder.Write) bool { return w.User == "admin" && w.Resource == "nodes" && w.Changes() })) == 3
	})
}

// deletedAndRefused deletes a pod twice, by UID, and sends requests of a user without
// permission.
func deletedAndRefused(ctx context.Context, t *testing.T, rec *recorder.Recorder, admin kubernetes.Interface, c *cluster.Cluster) {
	pods := admin.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	outsider, err := kubernetes.NewForConfig(c.As("outsider"))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := outsider.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, "p", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("delete without permission: got %v, want forbidden", err)
	}
	for range 2 {
		if err := pods.Delete(ctx, "p", *metav1.NewPreconditionDeleteOptions(string(pod.UID))); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, rec, "three requests to delete", func() bool { return len(rec.Writes(recorder.Of("delete", "pods"))) == 3 })
	for i, w := range rec.Writes(recorder.Of("delete", "pods")) {
		refused := i == 0
		if refused == w.Done() || refused != (w.User == "outsider") || w.Name != "p" || !refused && w.Object().UID != string(pod.UID) {
			t.Errorf("request %d: %s, object %+v", i, w, w.Object())
		}
		if w.At.Before(begin) || w.At.After(time.Now()) {
			t.Errorf("request %d at %s, not between %s and now", i, w.At, begin)
		}
	}
	until(ctx, t, rec, "the pod is being deleted", func() bool { return rec.Pod(pod.UID).Leaving() })
	if states := rec.PodStates(pod.UID); states[0].Leaving() {
		t.Error("the pod was deleted in its first state")
	}
}

func acrossALostConnection(ctx context.Context, t *testing.T, rec *recorder.Recorder, admin kubernetes.Interface, c *cluster.Cluster) {
	c.Link.Refuse()
	patch := []byte(`{"metadata": {"labels": {"missed": "no"}}}`)
	if _, err := admin.CoreV1().Nodes().Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Link.Pass(); err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().Nodes().Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, rec, "the node is deleted", func() bool { return rec.Node("a").Gone })
	if !slices.ContainsFunc(rec.NodeStates("a"), func(n *recorder.Node) bool { return !n.Gone && n.Labels["missed"] == "no" }) {
		t.Error("the change during the lost connection was not recorded")
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a", UID: "u"}, Reason: "Because",
	}
	if _, err := admin.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, rec, "the event", func() bool { return len(rec.Events("u", "Because")) == 1 })
	if found := rec.Events("u", "Else"); len(found) > 0 {
		t.Errorf("events of another reason: %v", found)
	}
}
