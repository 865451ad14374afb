package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// TestCluster_RunsWithKubelet runs all kubelet tests on one node, because its start takes longest.
func TestCluster_RunsWithKubelet(t *testing.T) {
	before := state()
	begin := time.Now()
	c := Make(t, Options{Components: Everything, Node: NodeOptions{
		Memory: 1 << 30, Filesystem: Filesystem{Size: 256 << 20},
		KubeletConfig: map[string]any{
			"evictionSoft":            map[string]string{"memory.available": "500Mi"},
			"evictionSoftGracePeriod": map[string]string{"memory.available": "8760h"},
		},
	}})
	t.Logf("everything started in %v", time.Since(begin))
	ctx := testContext(t)
	t.Run("no sysctl is touched", func(t *testing.T) {
		if after := state(); after != before {
			t.Errorf("fixed places changed from\n%sto\n%s", before, after)
		}
	})
	t.Run("summary", func(t *testing.T) { servesSummary(t, ctx, c) })
	t.Run("restarts containers", func(t *testing.T) { restartsContainers(t, ctx, c) })
	t.Run("scheduler", func(t *testing.T) { schedules(t, ctx, c) })
	t.Run("kubelet restarts", func(t *testing.T) {
		if err := errors.Join(c.Node.Kubelet.Kill(), c.Node.Kubelet.Restart(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	checkRemoved(t, c.Dir, c.Node.Cgroup)
	if after := state(); after != before {
		t.Errorf("fixed places changed from\n%sto\n%s", before, after)
	}
}

// servesSummary: the kubelet authenticates through the API server and has the requested
// configuration.
func servesSummary(t *testing.T, ctx context.Context, c *Cluster) {
	text, err := c.Node.GetFromKubelet(ctx, "/stats/summary")
	if err != nil || !strings.Contains(string(text), `"nodeName": "localhost"`) {
		t.Errorf("summary %.200s, %v", text, err)
	}
	text, err = c.Node.GetFromKubelet(ctx, "/configz")
	if err != nil || !strings.Contains(string(text), `"memory.available":"500Mi"`) {
		t.Errorf("configuration %.2000s, %v", text, err)
	}
}

func restartsContainers(t *testing.T, ctx context.Context, c *Cluster) {
	begin := time.Now()
	pod := Hog("again")
	pod.Spec.Containers[0].Resources = Resources(16<<20, 64<<20)
	p, err := c.Node.AddPod(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pod runs after %v", time.Since(begin))
	if err := p.Do(ctx, "fill 10MiB"); err != nil {
		t.Fatal(err)
	}
	if pids, err := p.PIDs(); err != nil || len(pids) != 2 {
		t.Errorf("processes %v, %v: want those of sandbox and container in %s", pids, err, p.Cgroup)
	}
	for _, dir := range []string{p.Logs, p.Volumes} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if err := p.Do(ctx, "exit 3"); err != nil {
		t.Fatal(err)
	}
	if err := p.Do(ctx, "fill 10MiB"); err != nil && !errors.Is(err, hog.ErrEnded) { // the old or the new one
		t.Error(err)
	}
	clients, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	err = await(ctx, func(ctx context.Context) error {
		got, err := clients.CoreV1().Pods("default").Get(ctx, "again", metav1.GetOptions{})
		if err == nil && (len(got.Status.ContainerStatuses) == 0 || got.Status.ContainerStatuses[0].RestartCount == 0 || !got.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("not restarted: %v", got.Status.ContainerStatuses)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Do(ctx, "fill 1MiB"); err != nil {
		t.Errorf("the restarted container: %v", err)
	}
	if err := p.Remove(ctx); err != nil {
		t.Error(err)
	}
}

func schedules(t *testing.T, ctx context.Context, c *Cluster) {
	clients, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	pod := c.Node.Prepare(Hog("anywhere"))
	if _, err := clients.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = await(ctx, func(ctx context.Context) error {
		got, err := clients.CoreV1().Pods("default").Get(ctx, "anywhere", metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase %s on node %q: %v", got.Status.Phase, got.Spec.NodeName, got.Status.Conditions)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
