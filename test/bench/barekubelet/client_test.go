package main

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// TestAPI_ServesKubeletsClient uses the client of a kubelet, with its informers.
func TestAPI_ServesKubeletsClient(t *testing.T) {
	a, server := serve(t)
	clients := newClients(t, server.URL)
	ctx := t.Context()
	node, err := clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	if err != nil || node.UID == "" {
		t.Fatalf("register the node: %v, %v", node, err)
	}
	patch := []byte(`{"status":{"$setElementOrder/conditions":[{"type":"Ready"}],"conditions":[{"type":"Ready","status":"True"}]}}`)
	if node, err = clients.CoreV1().Nodes().Patch(ctx, nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil || len(node.Status.Conditions) != 1 {
		t.Errorf("patch its status: %v, %v", node, err)
	}
	leases := clients.CoordinationV1().Leases("kube-node-lease")
	if _, err := leases.Get(ctx, nodeName, metav1.GetOptions{}); err == nil {
		t.Error("a lease before it is made")
	}
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	if err == nil {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Errorf("renew the lease: %v", err)
	}

	a.add("pods", newPod(t, "first"))
	seen := make(chan string, 10)
	factory := informers.NewSharedInformerFactory(clients, 0)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- "added " + o.(*corev1.Pod).Name },
		UpdateFunc: func(_, o any) { seen <- string(o.(*corev1.Pod).Status.Phase) + " " + o.(*corev1.Pod).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	services := factory.Core().V1().Services().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), services.HasSynced) {
		t.Error("an empty list of services is not in the client's store")
	}
	want := func(text string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != text {
				t.Errorf("got %s, want %s", got, text)
			}
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", text)
		}
	}
	want("added first")
	a.add("pods", newPod(t, "later"))
	want("added later")
	if _, err := clients.CoreV1().Pods("default").Patch(ctx, "later", types.StrategicMergePatchType, []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Error(err)
	}
	want("Failed later")
}

// TestAPI_ListsPodsForKubelet lists pods as the kubelet does: without a type to decode into, and without the
// defaults of an API server.
func TestAPI_ListsPodsForKubelet(t *testing.T) {
	a, server := serve(t)
	a.add("pods", newPod(t, "first"))
	list, err := cache.NewListWatchFromClient(newClients(t, server.URL).CoreV1().RESTClient(), "pods", "", fields.Everything()).ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, ok := list.(*corev1.PodList)
	if !ok || len(pods.Items) != 1 || pods.Items[0].Spec.SecurityContext == nil {
		t.Errorf("listed %v, want one pod with a security context", list)
	}
}

func newClients(t *testing.T, url string) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: url, BearerToken: "bare", ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

func newPod(t *testing.T, name string) object {
	t.Helper()
	o := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": "default", "uid": name}, "spec": object{"containers": []any{object{"name": "main"}}}}
	if err := complete(o); err != nil {
		t.Fatal(err)
	}
	return o
}
