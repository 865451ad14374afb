package fakeapiserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var leasesOf = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// serve starts a small cluster and a client that prefers a media type.
func serve(t *testing.T, size Size, mediaType string) (*Cluster, kubernetes.Interface) {
	t.Helper()
	c := New(size)
	s, err := c.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.ContentType, config.AcceptContentTypes, config.QPS = mediaType, mediaType, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// TestServe_FeedsInformers: informers receive the initial state and later changes.
func TestServe_FeedsInformers(t *testing.T) {
	for name, mediaType := range map[string]string{"protobuf": runtime.ContentTypeProtobuf, "JSON": runtime.ContentTypeJSON} {
		t.Run(name, func(t *testing.T) {
			c, client := serve(t, Size{Nodes: 20, Images: 30, Pods: 7}, mediaType)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f := informers.NewSharedInformerFactory(client, 0)
			leases := f.Coordination().V1().Leases().Lister()
			nodes, pods, daemons := f.Core().V1().Nodes().Informer(), f.Core().V1().Pods().Informer(), f.Apps().V1().DaemonSets().Informer()
			f.Start(ctx.Done())
			f.WaitForCacheSync(ctx.Done())
			if n, p, d := len(nodes.GetStore().List()), len(pods.GetStore().List()), len(daemons.GetStore().List()); n != 20 || p != 140 || d != 3 {
				t.Fatalf("%d nodes, %d pods, %d DaemonSets", n, p, d)
			}
			before, err := leases.Leases(corev1.NamespaceNodeLease).Get(NodeName(19))
			if err != nil {
				t.Fatal(err)
			}
			c.Pace(100)
			go c.Live(ctx)
			eventually(t, "the last node renews its lease", func() bool {
				now, err := leases.Leases(corev1.NamespaceNodeLease).Get(NodeName(19))
				return err == nil && now.Spec.RenewTime.After(before.Spec.RenewTime.Time) && now.ResourceVersion > before.ResourceVersion
			})
			if calls := c.Calls(); calls["WATCH pods"] != 1 || calls["WATCH leases"] != 1 || len(calls) != 4 {
				t.Errorf("calls: %v", calls)
			}
		})
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(time.Minute); !is(); {
		select {
		case <-late:
			t.Fatalf("timed out: %s", what)
		case <-tick.C:
		}
	}
}

// TestObjects_HaveRealisticSizes: objects are about as large as real ones.
func TestObjects_HaveRealisticSizes(t *testing.T) {
	c := New(Size{Nodes: 2, Images: 30, Pods: 30})
	for of, want := range map[schema.GroupResource][2]int{{Resource: "nodes"}: {6000, 12000}, {Resource: "pods"}: {2000, 3500}, leasesOf: {400, 900}} {
		frame, err := formats[1].frame(added, c.stores[of].at(1))
		if err != nil || len(frame) < want[0] || len(frame) > want[1] {
			t.Errorf("%s have %d bytes, %v; want %v", of.Resource, len(frame), err, want)
		}
	}
}

func TestList_ReturnsPages(t *testing.T) {
	_, client := serve(t, Size{Nodes: 5, Pods: 10}, runtime.ContentTypeProtobuf)
	seen, next, pages := map[string]bool{}, "", 0
	for ; pages == 0 || next != ""; pages++ {
		l, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 4, Continue: next, FieldSelector: "spec.nodeName=" + NodeName(3)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range l.Items {
			seen[l.Items[i].Name] = true
		}
		next = l.Continue
	}
	if len(seen) != 10 || pages != 3 {
		t.Errorf("%d pods in %d pages: %v", len(seen), pages, seen)
	}
}

func TestWrite_UpdatesAndPatches(t *testing.T) {
	c, client := serve(t, Size{Nodes: 3, Images: 1, Pods: 4}, runtime.ContentTypeProtobuf)
	ctx, nodes, name := t.Context(), client.CoreV1().Nodes(), NodeName(1)
	n, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions[3].Status = corev1.ConditionUnknown
	n.Spec.Unschedulable = true // not part of a status write
	written, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
	if err != nil || written.Spec.Unschedulable || written.Status.Conditions[3].Status != corev1.ConditionUnknown || written.ResourceVersion == n.ResourceVersion {
		t.Errorf("update of the status: %v, %+v", err, written)
	}
	if _, marked := c.Unknown()[name]; !marked || len(c.Unknown()) != 1 {
		t.Errorf("unknown: %v", c.Unknown())
	}
	if _, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update from an old version: %v", err)
	}
	for kind, body := range map[types.PatchType]string{
		types.StrategicMergePatchType: `{"metadata":{"uid":"%s"},"spec":{"taints":[{"key":"strategic","effect":"NoExecute"}]}}`,
		types.MergePatchType:          `{"metadata":{"uid":"%s"},"spec":{"taints":[{"key":"merge","effect":"NoExecute"}]},"status":{"images":null}}`,
	} {
		patched, err := nodes.Patch(ctx, name, kind, fmt.Appendf(nil, body, n.UID), metav1.PatchOptions{})
		if err != nil || patched.Spec.Taints[0].Effect != corev1.TaintEffectNoExecute || len(patched.Status.Conditions) != 4 {
			t.Errorf("%s: %v, %+v", kind, err, patched)
		}
		if _, err := nodes.Patch(ctx, name, kind, fmt.Appendf(nil, body, "another"), metav1.PatchOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("%s for another UID: %v", kind, err)
		}
	}
	if calls := c.Calls(); calls["PUT nodes/status"] != 2 || calls["PATCH nodes"] != 4 || calls["GET nodes"] != 1 {
		t.Errorf("calls: %v", calls)
	}
}

// TestDelete_WaitsForKubelet: a deleted pod waits for its kubelet.
func TestDelete_WaitsForKubelet(t *testing.T) {
	c, client := serve(t, Size{Nodes: 1, Pods: 4}, runtime.ContentTypeJSON)
	namespace, name := c.podNames(3)
	ctx, pods, other := t.Context(), client.CoreV1().Pods(namespace), types.UID("other")
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("deletion by another UID: got %v, want conflict", err)
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err := pods.Get(ctx, name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("a deleted pod: %v, %+v", err, p)
	}
	if err := pods.Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a removed pod: got %v, want not found", err)
	}
}

// TestLeases_CanBeRecreated: a lease without a node can be created, deleted and created again.
func TestLeases_CanBeRecreated(t *testing.T) {
	_, client := serve(t, Size{Nodes: 1}, runtime.ContentTypeJSON)
	ctx, leases := t.Context(), client.CoordinationV1().Leases("system")
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
	for range 2 {
		for _, taken := range []bool{false, true} {
			if _, err := leases.Create(ctx, l, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) != taken || err != nil && !taken {
				t.Errorf("create a lease: %v", err)
			}
		}
		for _, want := range []int{2, 1} {
			if all, err := client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{}); err != nil || len(all.Items) != want {
				t.Errorf("want %d leases, got %v, %v", want, err, all)
			}
			if err := leases.Delete(ctx, "leader", metav1.DeleteOptions{}); apierrors.IsNotFound(err) == (want == 2) {
				t.Error(err)
			}
		}
	}
}

// TestWatch_ResumesFromVersion: a resumed watch receives the changes since its version, or the error
// that the version is too old.
func TestWatch_ResumesFromVersion(t *testing.T) {
	c, client := serve(t, Size{Nodes: 2}, runtime.ContentTypeProtobuf)
	ctx, leases := t.Context(), client.CoordinationV1().Leases("")
	w, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(oldest)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	beat := func(times int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for range times {
			c.beat(c.leases, 1, time.Now())
		}
	}
	beat(1)
	first := <-w.ResultChan()
	beat(1)
	<-w.ResultChan()
	again, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: first.Object.(metav1.Object).GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	if e := <-again.ResultChan(); e.Type != watch.Modified || e.Object.(metav1.Object).GetResourceVersion() != fmt.Sprint(oldest+2) {
		t.Errorf("change between both watches: %+v", e)
	}
	beat(2 * historySize)
	if late, err := leases.Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(oldest)}); !apierrors.IsResourceExpired(err) {
		t.Errorf("watch from a dropped version: %v, %v", late, err)
	}
}

// TestLive_RenewsUnlessSilent: stopped kubelets send no heartbeats, the others do; a written node remains as
// it was written.
func TestLive_RenewsUnlessSilent(t *testing.T) {
	c, client := serve(t, Size{Nodes: 4}, runtime.ContentTypeProtobuf)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := client.CoreV1().Nodes().Patch(ctx, NodeName(0), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Silence(2)
	inside, err := c.Watch(ctx, leasesOf, corev1.NamespaceNodeLease, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Pace(1000)
	go c.Live(ctx)
	seen := map[string]int{}
	for seen[NodeName(3)] < 5 {
		seen[(<-inside.ResultChan()).Object.(metav1.Object).GetName()]++
	}
	if seen[NodeName(2)] != 1 || seen[NodeName(1)] < 4 || len(c.Silent()) != 1 {
		t.Errorf("renewals: %v; silent: %v", seen, c.Silent())
	}
	c.mu.Lock()
	beats := c.beat(c.nodes, 0, time.Now())
	c.mu.Unlock()
	if n, err := client.CoreV1().Nodes().Get(ctx, NodeName(0), metav1.GetOptions{}); err != nil || !n.Spec.Unschedulable || beats != 1 {
		t.Errorf("a node that was written to, after %d beats: %v, %+v", beats, err, n)
	}
}
