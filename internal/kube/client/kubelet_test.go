package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/kube/client"
	"plimsoll.dev/plimsoll/internal/kube/runtimepods"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

const mebi = 1 << 20

// The status that a real kubelet writes is converted correctly, and agrees with the runtime.
func TestWatchPods_OnRealKubelet(t *testing.T) {
	manifests := t.TempDir()
	c := cluster.Make(t, cluster.Options{Components: cluster.Kubelet, Node: cluster.NodeOptions{
		Memory: 1 << 30, KubeletConfig: map[string]any{"staticPodPath": manifests, "fileCheckFrequency": "1s"},
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.Kubeconfig(c.As("system:node:"+cluster.NodeName, "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	connection, err := client.Connect(client.Options{Kubeconfig: path, NodeName: cluster.NodeName})
	if err != nil {
		t.Fatal(err)
	}
	p := client.WatchPods(ctx, connection, nil, nil)
	n := client.WatchNode(ctx, connection, nil)

	sized := cluster.Hog("sized")
	sized.Spec.Containers[0].Resources = cluster.Resources(64*mebi, 0)
	always := corev1.ContainerRestartPolicyAlways
	side := cluster.HogContainer("side")
	side.RestartPolicy, side.Resources = &always, cluster.Resources(16*mebi, 0)
	sized.Spec.InitContainers = []corev1.Container{side}
	made, err := c.Node.AddPod(ctx, sized)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the containers of the pod are known", func() bool {
		got := find(p, "sized").Containers
		return len(got) == 2 && got[0].ID == made.Containers["main"] && got[1].ID != "" // running containers are compared with the runtime below
	})
	if got := find(p, "sized"); got.MemoryRequest.Value != 80*mebi || got.UID != made.UID() || !got.Containers[1].Init {
		t.Errorf("the pod: %+v", got)
	}
	if shutting, why := n.ShuttingDown(); n.KubeletVersion() == "" || shutting {
		t.Errorf("kubelet %q, shutting down %v %q", n.KubeletVersion(), shutting, why)
	}
	checkResizeCountsOnceGranted(ctx, t, c, admin, p, n.Object().Status.Allocatable.Memory().Value())
	checkStaticPodUID(t, c, p, manifests)
	checkAgainstRuntime(ctx, t, c, p)
}

// checkResizeCountsOnceGranted requests more memory than is free. The kubelet grants it after the
// end of another pod.
func checkResizeCountsOnceGranted(ctx context.Context, t *testing.T, c *cluster.Cluster, admin kubernetes.Interface, p *client.Pods, allocatable int64) {
	t.Helper()
	other := cluster.Hog("other")
	other.Spec.Containers[0].Resources = cluster.Resources(allocatable/2, 0)
	created, err := c.Node.AddPod(ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	const before = 80 * mebi
	requested := allocatable * 3 / 4
	patch := fmt.Sprintf(`{"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "%d"}}}]}}`, requested)
	if _, err := admin.CoreV1().Pods("default").Patch(ctx, "sized", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	unchanged := func() string {
		if got := find(p, "sized").MemoryRequest.Value; got != before {
			return fmt.Sprintf("the pod counts with %d bytes, but only %d are granted", got, int64(before))
		}
		return ""
	}
	eventually(t, "the kubelet has deferred the resize", func() bool {
		object, err := admin.CoreV1().Pods("default").Get(ctx, "sized", metav1.GetOptions{})
		return err == nil && object.Spec.Containers[0].Resources.Requests.Memory().Value() == requested &&
			slices.ContainsFunc(object.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	}, unchanged)
	if fault := unchanged(); fault != "" {
		t.Error(fault)
	}
	if err := created.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the resize is granted", func() bool {
		return int64(find(p, "sized").MemoryRequest.Value) == requested+16*mebi
	})
}

func checkStaticPodUID(t *testing.T, c *cluster.Cluster, p *client.Pods, manifests string) {
	t.Helper()
	static := c.Node.Prepare(cluster.Hog("static"))
	static.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	text, err := json.Marshal(static)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(manifests, "static.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	name := "static-" + cluster.NodeName
	eventually(t, "the static pod runs", func() bool {
		got := find(p, name).Containers
		return len(got) == 1 && got[0].ID != ""
	})
	got := find(p, name)
	object, ok := p.Get(got.UID)
	if !ok || got.Protection != signals.Static || string(object.UID) == got.UID || p.State(got.UID) != client.Active {
		t.Errorf("the static pod: %+v", got)
	}
	pod := object.DeepCopy()
	pod.UID = types.UID(got.UID)
	if pids, err := c.Node.Pod(pod).PIDs(); err != nil || len(pids) == 0 {
		t.Errorf("no processes in the cgroup of UID %s: %v", got.UID, err)
	}
}

func checkAgainstRuntime(ctx context.Context, t *testing.T, c *cluster.Cluster, p *client.Pods) {
	t.Helper()
	runtime, err := cri.Open(cri.Options{Endpoint: c.Node.Socket, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	sandboxes, err := runtime.Sandboxes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	containers, err := runtime.Containers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	known := func(all []signals.Pod) string {
		text := ""
		for i := range all {
			ids := map[string]string{}
			for _, c := range all[i].Containers {
				ids[c.Name] = c.ID
			}
			text += fmt.Sprintln(all[i].UID, all[i].Key(), all[i].Protection, ids)
		}
		return text
	}
	if fromAPI, fromRuntime := known(p.Active()), known(runtimepods.Convert(sandboxes, containers, nil)); fromAPI != fromRuntime {
		t.Errorf("pods of the API server\n%sof the runtime\n%s", fromAPI, fromRuntime)
	}
}
