package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// On a real API server, with the rights of a node: the pods bound to this node appear, others
// never, and known pods remain without the server.
func TestWatchPods_OnRealAPIServer(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		register(ctx, t, admin, name)
	}
	bind(ctx, t, admin, "a", "n1")
	bind(ctx, t, admin, "x", "n2")
	bind(ctx, t, admin, "pending", "")

	path, err := c.Kubeconfig(c.Link.Config(c.As("system:node:n1", "system:nodes")))
	if err != nil {
		t.Fatal(err)
	}
	log := &logcapture.Book{}
	connection, err := client.Connect(client.Options{Kubeconfig: path, NodeName: "n1", Log: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	p := client.WatchPods(ctx, connection, []signals.Pod{{UID: "old", Name: "old"}}, nil)
	n := client.WatchNode(ctx, connection, nil)
	foreign := func() string { // must stay empty at all times
		for _, pod := range p.Active() {
			if pod.Name == "x" || pod.Name == "pending" {
				return "a pod of another node is active: " + pod.Name
			}
		}
		return ""
	}
	known := func(want string) {
		t.Helper()
		eventually(t, "active: "+want, func() bool { return names(p.Active()) == want }, foreign)
	}
	known("a")
	eventually(t, "the node is known", func() bool { return n.UID() != "" })
	bind(ctx, t, admin, "b", "n1")
	bind(ctx, t, admin, "y", "n2")
	known("a b")
	checkEndOfDeletedPod(ctx, t, admin, p)
	checkEndedPodNotActive(ctx, t, admin, p)
	bind(ctx, t, admin, "a", "n1")
	known("a b")
	checkServerRestart(ctx, t, c, p, n)
	bind(ctx, t, admin, "c", "n1")
	known("a b c")
	if n := log.Count("Failed to reach the API server"); n > 6 {
		t.Errorf("one outage was logged %d times", n)
	}
	c.Link.Stall() // the connection stays open, and forwards nothing
	bind(ctx, t, admin, "d", "n1")
	if err := admin.CoreV1().Pods("default").Delete(ctx, "c", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stalled connection is detected", func() bool { return p.Err() != nil }, foreign)
	if got := names(p.Active()); got != "a b c" {
		t.Errorf("active behind a stalled connection: %s", got)
	}
	if err := c.Link.Pass(); err != nil {
		t.Fatal(err)
	}
	known("a b d")
}

// checkServerRestart kills the server and starts it again.
func checkServerRestart(ctx context.Context, t *testing.T, c *cluster.Cluster, p *client.Pods, n *client.Node) {
	t.Helper()
	known := func() string {
		if got := names(p.Active()); got != "a b" || n.UID() == "" || !p.Synced() || p.State("none") != client.Gone {
			return fmt.Sprintf("active: %q, node %q", got, n.UID())
		}
		return ""
	}
	// After SIGTERM the server would wait a minute for watches to end.
	if err := c.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outage is reported", func() bool { return p.Err() != nil && n.Err() != nil }, known)
	if err := c.APIServer.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the recovery is reported", func() bool { return p.Err() == nil && n.Err() == nil }, known)
}

func register(ctx context.Context, t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bind creates a pod bound to a node without a kubelet.
func bind(ctx context.Context, t *testing.T, admin kubernetes.Interface, name, node string) {
	t.Helper()
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: new(int64(60)),
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}
	if _, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// find returns the active pod of that name.
func find(p *client.Pods, name string) *signals.Pod {
	active := p.Active()
	for i := range active {
		if active[i].Name == name {
			return &active[i]
		}
	}
	return &signals.Pod{}
}

func checkEndOfDeletedPod(ctx context.Context, t *testing.T, admin kubernetes.Interface, p *client.Pods) {
	t.Helper()
	if !find(p, "a").EndsBy.IsZero() {
		t.Error("a pod without a deletion timestamp has an end time")
	}
	begin := time.Now()
	if err := admin.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a has an end time", func() bool { return !find(p, "a").EndsBy.IsZero() })
	if grace := find(p, "a").EndsBy.Sub(begin); grace < 58*time.Second || grace > 75*time.Second {
		t.Errorf("a pod with a grace period of 60 s ends %v after its deletion", grace)
	}
}

// checkEndedPodNotActive sets the pod a to a terminal phase, as an eviction does.
func checkEndedPodNotActive(ctx context.Context, t *testing.T, admin kubernetes.Interface, p *client.Pods) {
	t.Helper()
	uid := find(p, "a").UID
	object, ok := p.Get(uid)
	if !ok {
		t.Fatal("an active pod has no object")
	}
	failed := object.DeepCopy()
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "Evicted"
	if _, err := admin.CoreV1().Pods("default").UpdateStatus(ctx, failed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is evicted", func() bool { return p.State(uid) == client.Evicted && find(p, "a").UID == "" })
	if err := admin.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is gone", func() bool { return p.State(uid) == client.Gone })
}
