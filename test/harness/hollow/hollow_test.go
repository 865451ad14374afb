package hollow_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

const renew = 200 * time.Millisecond

// env is a farm with a recorder.
type env struct {
	*testing.T
	ctx  context.Context
	api  kubernetes.Interface
	farm *hollow.Farm
	rec  *recorder.Recorder
}

func TestFarm_SimulatesNodes(t *testing.T) {
	c := cluster.Make(t, cluster.Options{Components: cluster.APIServer})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	api, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.Start(t.Context(), api, nil)
	if err != nil {
		t.Fatal(err)
	}
	farm, err := hollow.Start(t.Context(), hollow.Options{Client: api, Renew: renew})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Namespace(ctx, "plimsoll-system"); err != nil {
		t.Fatal(err)
	}
	y := &env{t, ctx, api, farm, rec}
	y.podsEnd()
	y.reports()
	y.leases()
	if err := farm.Clear(ctx); err != nil {
		t.Error(err)
	}
	nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) > 0 {
		t.Errorf("nodes after Clear: %v, %v", nodes.Items, err)
	}
	farm.Close()
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
}

func (y *env) add(name string) *hollow.Node {
	y.Helper()
	n, err := y.farm.Add(y.ctx, name, nil)
	if err != nil {
		y.Fatal(err)
	}
	return n
}

func (y *env) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *env) until(what string, so func() bool) {
	y.Helper()
	if err := y.rec.Until(y.ctx, so); err != nil {
		y.Fatalf("%s: %v", what, err)
	}
}

// runAndDelete runs a pod and deletes it as a client does.
func (y *env) runAndDelete(n *hollow.Node, name string) types.UID {
	y.Helper()
	pod, err := n.Run(y.ctx, hollow.Pod(name, 7))
	y.must(err)
	y.until("the pod is ready", func() bool {
		return y.rec.Pod(pod.UID).Condition(corev1.PodReady).Status == corev1.ConditionTrue
	})
	y.must(y.api.CoreV1().Pods(pod.Namespace).Delete(y.ctx, pod.Name, metav1.DeleteOptions{}))
	y.until("the pod is deleted", func() bool { return y.rec.Pod(pod.UID).Leaving() })
	return pod.UID
}

// podsEnd: pods end while their node is alive; a silent node sends nothing.
func (y *env) podsEnd() {
	n := y.add("a")
	uid := y.runAndDelete(n, "first")
	y.until("the kubelet ends the pod", func() bool { return y.rec.Pod(uid).Gone })

	last, before := n.Stop(), y.renewed("kube-node-lease", "a")
	beats := n.Beats()
	if end := beats[len(beats)-1]; last != end {
		y.Errorf("Stop returned %v, the last heartbeat is %v", last, end)
	}
	// The last heartbeat may be a report of the status: the lease is as old as its last renewal.
	beats = slices.DeleteFunc(beats, func(b hollow.Beat) bool { return !b.Lease })
	if renewal := beats[len(beats)-1]; before.Before(renewal.Sent.Truncate(time.Microsecond)) || before.After(renewal.Done) {
		y.Errorf("the lease was renewed at %v, the last renewal is %v", before, renewal)
	}
	uid = y.runAndDelete(n, "second")
	wait := time.After(5 * renew)
	<-wait
	if after := y.renewed("kube-node-lease", "a"); !after.Equal(before) {
		y.Errorf("the lease of a silent node was renewed at %v and %v", before, after)
	}
	if p := y.rec.Pod(uid); p.Gone || !p.Leaving() {
		y.Errorf("on a silent node the pod is %+v", p)
	}
	y.must(n.Resume(y.ctx))
	y.until("the kubelet ends the pod", func() bool { return y.rec.Pod(uid).Gone })
	if !y.renewed("kube-node-lease", "a").After(before) {
		y.Error("a resumed node did not renew its lease")
	}
}

// reports: Ready is the node's own status, even after writes of other clients.
func (y *env) reports() {
	n := y.add("b")
	ready := func(want corev1.ConditionStatus) func() bool {
		return func() bool { return y.rec.Node("b").Is(corev1.NodeReady) == want }
	}
	y.until("the node is ready", ready(corev1.ConditionTrue))
	y.must(n.Report(y.ctx, corev1.ConditionFalse))
	y.until("the node is not ready", ready(corev1.ConditionFalse))
	patch := []byte(`{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}`)
	_, err := y.api.CoreV1().Nodes().Patch(y.ctx, "b", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	y.must(err)
	// The last state may be the node's next report already.
	y.until("another client marks the node Unknown", func() bool {
		return slices.ContainsFunc(y.rec.NodeStates("b"), func(n *recorder.Node) bool { return n.Is(corev1.NodeReady) == corev1.ConditionUnknown })
	})
	y.until("the node reports again", ready(corev1.ConditionFalse))
}

// leases: clocks can be wrong, and agents have leases of their own.
func (y *env) leases() {
	n := y.add("c")
	n.Assist(true)
	n.Skew(-time.Hour)
	y.must(n.Resume(y.ctx))
	if ago := time.Since(y.renewed("kube-node-lease", "c")); ago < 55*time.Minute {
		y.Errorf("renewal by a clock one hour late: %v ago", ago)
	}
	count, reporting := len(n.Beats()), time.Now()
	y.must(n.Report(y.ctx, corev1.ConditionTrue))
	if beats := n.Beats(); len(beats) <= count || beats[len(beats)-1].Done.Before(reporting) { // the node's clock does not count
		y.Errorf("heartbeats: %v", beats)
	}
	n.StopKubelet()
	tick := time.NewTicker(renew)
	defer tick.Stop()
	for seen := map[time.Time]bool{}; len(seen) < 3; <-tick.C { // the agent continues to renew
		if y.ctx.Err() != nil {
			y.Fatal("the agent stopped its renewals")
		}
		if at := y.renewed("plimsoll-system", "c"); !at.IsZero() {
			seen[at] = true
		}
	}
	if n.Living() {
		y.Error("the kubelet is alive after StopKubelet")
	}
}

func (y *env) renewed(namespace, name string) time.Time {
	y.Helper()
	leases, err := y.api.CoordinationV1().Leases(namespace).List(y.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	y.must(err)
	if len(leases.Items) == 0 {
		return time.Time{}
	}
	return leases.Items[0].Spec.RenewTime.Time
}
