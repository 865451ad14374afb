package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/test/harness/hog"
)

// burstable returns a pod with a limit and a volume.
func burstable(name string) *corev1.Pod {
	pod := Hog(name)
	c := &pod.Spec.Containers[0]
	c.Resources = Resources(10<<20, 64<<20)
	c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Labels = map[string]string{"app": name}
	return pod
}

// TestAddPod_EqualsPodOfKubelet: for the API server, the runtime, the kernel and the file system the
// pod equals one that a kubelet started.
func TestAddPod_EqualsPodOfKubelet(t *testing.T) {
	before := state()
	begin := time.Now()
	c := Make(t, Options{Components: APIServer | Containerd})
	t.Logf("API server and containerd started in %v", time.Since(begin))
	ctx := testContext(t)
	begin = time.Now()
	p, err := c.Node.AddPod(ctx, burstable("greedy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pod runs after %v", time.Since(begin))
	t.Run("status", func(t *testing.T) { hasStatus(t, c, p) })
	t.Run("labels", func(t *testing.T) { hasLabels(t, ctx, c.Node, p) })
	t.Run("cgroup", func(t *testing.T) { hasCgroup(t, ctx, p) })
	t.Run("files", func(t *testing.T) { hasFiles(t, ctx, p) })
	t.Run("end", func(t *testing.T) { endsWithItsHog(t, ctx, p) })
	t.Run("remove", func(t *testing.T) {
		if err := p.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		if left, _ := filepath.Glob(cgroupRoot + "/*" + p.Cgroup); len(left) > 0 {
			t.Errorf("not removed: %v", left)
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

func hasStatus(t *testing.T, c *Cluster, p *Pod) {
	clients, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	got, err := clients.CoreV1().Pods("default").Get(t.Context(), "greedy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != corev1.PodRunning || got.Status.QOSClass != corev1.PodQOSBurstable || got.Spec.NodeName != NodeName {
		t.Errorf("phase %s, class %s, node %s", got.Status.Phase, got.Status.QOSClass, got.Spec.NodeName)
	}
	if s := got.Status.ContainerStatuses; len(s) != 1 || s[0].ContainerID != "containerd://"+p.Containers["main"] || s[0].State.Running == nil {
		t.Errorf("container statuses %+v", s)
	}
}

func hasLabels(t *testing.T, ctx context.Context, n *Node, p *Pod) {
	list, err := n.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Containers) != 1 {
		t.Fatalf("%d containers, want 1: %v", len(list.Containers), list.Containers)
	}
	for name, want := range map[string]string{
		labelPodName: "greedy", labelPodNamespace: "default", labelPodUID: p.UID(), labelContainer: "main", "app": "greedy",
	} {
		if got := list.Containers[0].Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
}

func hasCgroup(t *testing.T, ctx context.Context, p *Pod) {
	if !strings.HasPrefix(p.Cgroup, p.node.Cgroup+"/kubepods/burstable/pod") {
		t.Errorf("cgroup %s is not at the place of a kubelet's", p.Cgroup)
	}
	if err := p.Do(ctx, "fill 20MiB"); err != nil {
		t.Fatal(err)
	}
	memory := p.memoryDir()
	if text, err := os.ReadFile(filepath.Join(memory, "memory.limit_in_bytes")); err == nil && strings.TrimSpace(string(text)) != "67108864" {
		t.Errorf("the pod's limit is %s", text)
	}
	if _, err := os.Stat(filepath.Join(memory, p.Containers["main"])); err != nil {
		t.Errorf("the container has no cgroup of its own in the pod's: %v", err)
	}
	if pids, err := p.PIDs(); err != nil || len(pids) != 2 {
		t.Errorf("processes %v, %v: want those of sandbox and container", pids, err)
	}
	if usage, err := p.node.Sandbox.Usage(); err != nil || usage < 20<<20 {
		t.Errorf("the node uses %d bytes, %v: want the pod's 20 MiB", usage, err)
	}
}

func hasFiles(t *testing.T, ctx context.Context, p *Pod) {
	if err := p.Do(ctx, "cache 1MiB in /scratch"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.EmptyDir("scratch")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(p.Logs, "main", "0.log")); err != nil {
		t.Error(err)
	}
}

func endsWithItsHog(t *testing.T, ctx context.Context, p *Pod) {
	if err := p.Do(ctx, "fill nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("an invalid command: %v", err)
	}
	if err := p.Do(ctx, "fill 100MiB"); !errors.Is(err, hog.ErrEnded) {
		t.Errorf("a hog beyond its limit: %v, want %v", err, hog.ErrEnded)
	}
	dead := p.Containers["main"]
	if err := p.Restart(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	if err := p.Do(ctx, "fill 1MiB"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	if err := await(ctx, func(ctx context.Context) error { // the OOM kill is reported before the exit
		status, err := p.node.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: dead})
		if err == nil && (status.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED || status.Status.ExitCode != 137) {
			err = fmt.Errorf("it is %v", status)
		}
		return err
	}); err != nil {
		t.Errorf("the dead container: %v", err)
	}
}

// TestFilesystem_HasRequestedSize: the node's file systems have the requested sizes, and the runtime
// reports the usage of a full one.
func TestFilesystem_HasRequestedSize(t *testing.T) {
	const mib = 1 << 20
	c := Make(t, Options{Components: Containerd, Node: NodeOptions{
		Memory: 512 * mib, Filesystem: Filesystem{Size: 64 * mib, Inodes: 1000}, ImageFilesystem: Filesystem{Size: 200 * mib},
	}})
	ctx := testContext(t)
	var node, images unix.Statfs_t
	if err := errors.Join(unix.Statfs(c.Node.KubeletRoot, &node), unix.Statfs(c.Node.ContainerdRoot, &images)); err != nil {
		t.Fatal(err)
	}
	if size := int64(node.Blocks) * node.Bsize; size > 64*mib || node.Files > 1200 || node.Fsid == images.Fsid {
		t.Errorf("node file system: %d bytes, %d inodes, its own: %v", size, node.Files, node.Fsid != images.Fsid)
	}
	free := images.Bavail
	names, err := c.Node.MakeImages(ctx, "ballast", 3, 10*mib)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Statfs(c.Node.ContainerdRoot, &images); err != nil {
		t.Fatal(err)
	}
	if taken := int64(free-images.Bavail) * images.Bsize; taken < 3*10*mib || taken > 3*25*mib {
		t.Errorf("three images of 10 MiB take %d bytes", taken)
	}
	ids := map[string]bool{}
	for _, name := range names {
		status, err := c.Node.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil || status.Image == nil {
			t.Fatalf("image %s: %v, %v", name, status, err)
		}
		ids[status.Image.Id] = true
	}
	if len(ids) != len(names) {
		t.Errorf("%d images have %d IDs", len(names), len(ids))
	}
	if _, err := c.Node.AddPod(ctx, Hog("small")); err != nil {
		t.Error(err)
	}
	if out, err := c.Node.Enter(exec.Command("readlink", "/run/containerd/containerd.sock")).Output(); err != nil || strings.TrimSpace(string(out)) != c.Node.Socket {
		t.Errorf("inside the node's mount namespace containerd is at %s, %v", out, err)
	}
}

// TestContainerd_RecoversContainers: containers survive the end of containerd, and it finds them again
// after its restart.
func TestContainerd_RecoversContainers(t *testing.T) {
	c := Make(t, Options{Components: Containerd, Node: NodeOptions{Memory: 256 << 20}})
	ctx := testContext(t)
	p, err := c.Node.AddPod(ctx, Hog("survivor"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Node.Containerd.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Do(ctx, "fill 5MiB"); err != nil {
		t.Errorf("without containerd: %v", err)
	}
	if err := c.Node.Containerd.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	status, err := c.Node.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: p.Containers["main"]})
	if err != nil || status.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("after the restart: %v, %v", status, err)
	}
	if err := p.Remove(ctx); err != nil {
		t.Error(err)
	}
}
