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
func TestPodsOfARealServer(t *testing.T) {
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
	book := &logcapture.Book{}
	connection, err := client.Connect(client.Options{Kubeconfig: path, NodeName: "n1", Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	p := client.WatchPods(ctx, connection, []signals.Pod{{UID: "old", Name: "old"}}, nil)
	n := client.WatchNode(ctx, connection, nil)
	others := func() string { // must stay empty at all times
		for _, pod := range p.Active() {
			if pod.Name == "x" || pod.Name == "pending" {
				return "a pod of elsewhere is taken for one of this node: " + pod.Name
			}
		}
		return ""
	}
	known := func(want string) {
		t.Helper()
		eventually(t, "known: "+want, func() bool { return names(p.Active()) == want }, others)
	}
	known("a")
	eventually(t, "the node is known", func() bool { return n.UID() != "" })
	bind(ctx, t, admin, "b", "n1")
	bind(ctx, t, admin, "y", "n2")
	known("a b")
	deletedPodsSayWhenTheyEnd(ctx, t, admin, p)
	endedPodsAreNotActive(ctx, t, admin, p)
	bind(ctx, t, admin, "a", "n1")
	known("a b")
	lastsLongerThanTheServer(ctx, t, c, p, n)
	bind(ctx, t, admin, "c", "n1")
	known("a b c")
	if n := book.Count("Failed to reach the API server"); n > 6 {
		t.Errorf("one outage was told %d times", n)
	}
	c.Link.Stall() // the connection stays open, and forwards nothing
	bind(ctx, t, admin, "d", "n1")
	if err := admin.CoreV1().Pods("default").Delete(ctx, "c", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is noticed that nobody is there", func() bool { return p.Err() != nil }, others)
	if got := names(p.Active()); got != "a b c" {
		t.Errorf("active behind a stalled connection: %s", got)
	}
	if err := c.Link.Pass(); err != nil {
		t.Fatal(err)
	}
	known("a b d")
}

// lastsLongerThanTheServer kills the server and starts it again.
func lastsLongerThanTheServer(ctx context.Context, t *testing.T, c *cluster.Cluster, p *client.Pods, n *client.Node) {
	t.Helper()
	known := func() string {
		if got := names(p.Active()); got != "a b" || n.UID() == "" || !p.Synced() || p.State("none") != client.Gone {
			return fmt.Sprintf("active: %q, node %q", got, n.UID())
		}
		return ""
	}
	// After SIGTERM it would wait a minute for watches to end.
	if err := c.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told that the server is gone", func() bool { return p.Err() != nil && n.Err() != nil }, known)
	if err := c.APIServer.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has answered again", func() bool { return p.Err() == nil && n.Err() == nil }, known)
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

func deletedPodsSayWhenTheyEnd(ctx context.Context, t *testing.T, admin kubernetes.Interface, p *client.Pods) {
	t.Helper()
	if !find(p, "a").EndsBy.IsZero() {
		t.Error("a pod that nobody has deleted is about to end")
	}
	begin := time.Now()
	if err := admin.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is known when a ends", func() bool { return !find(p, "a").EndsBy.IsZero() })
	if grace := find(p, "a").EndsBy.Sub(begin); grace < 58*time.Second || grace > 75*time.Second {
		t.Errorf("a pod with a grace period of 60 s ends %v after it was deleted", grace)
	}
}

// endedPodsAreNotActive sets the pod a to a terminal phase, as an eviction does.
func endedPodsAreNotActive(ctx context.Context, t *testing.T, admin kubernetes.Interface, p *client.Pods) {
	t.Helper()
	uid := find(p, "a").UID
	object, ok := p.Get(uid)
	if !ok {
		t.Fatal("there is no object of an active pod")
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
