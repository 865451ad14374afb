package e2e

import (
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

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// group returns the cgroup to which the memory of a pod's container is charged.
func group(p *cluster.Pod) string {
	dir := filepath.Join("/sys/fs/cgroup/memory", p.Cgroup, p.Containers["main"])
	if _, err := os.Stat(dir); err != nil {
		dir = filepath.Join("/sys/fs/cgroup", p.Cgroup, p.Containers["main"])
	}
	return dir
}

// missing is a ConfigMap without which the kubelet starts no container of a pod that refers to it.
const missing = "missing"

// crashForGood kills the processes of a pod's container, and waits until the kubelet can not restart it because the
// ConfigMap is deleted. A kubelet that has not received the deletion restarts it once more.
func (s *env) crashForGood(p *cluster.Pod) {
	s.t.Helper()
	s.must(s.API.CoreV1().ConfigMaps(p.Object.Namespace).Delete(s.t.Context(), missing, metav1.DeleteOptions{}))
	for restarts := int32(0); ; restarts++ {
		s.killContainers(p)
		again := false
		s.until("the container can not be restarted", func() bool {
			got := s.get(p).Status.ContainerStatuses
			again = len(got) == 1 && got[0].State.Running != nil && got[0].RestartCount > restarts
			return again || len(got) == 1 && got[0].State.Waiting != nil && got[0].State.Waiting.Reason == "CreateContainerConfigError"
		})
		if !again {
			return
		}
	}
}

// killContainers kills the processes of a pod but that of its sandbox.
func (s *env) killContainers(p *cluster.Pod) {
	s.t.Helper()
	pids, err := p.PIDs()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pid := range pids {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "pause" {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH { // it may have ended with another one
			s.t.Fatalf("kill process %d of pod %s: %v", pid, p.Object.Name, err)
		}
	}
}

// TestEvict_PodWithoutProcessesBesideKubelet covers a container that has filled a volume in
// memory and crashes. Until it is restarted, the pod has no process but its sandbox. The
// kubelet unmounts the volume once the status is set.
func TestEvict_PodWithoutProcessesBesideKubelet(t *testing.T) {
	s := newEnv(t, withKubelet(nil))
	s.evictedStaysEvicted()
	calm := s.add(always("calm"))
	if err := calm.Do(t.Context(), "fill 200MiB"); err != nil {
		t.Fatal(err)
	}
	pod := writer("holder")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	_, err := s.API.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: missing}}, metav1.CreateOptions{})
	s.must(err)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: missing}}}}
	pod.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	holder := s.add(pod)
	pids, err := holder.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	file := ""
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/volume", pid)); err == nil {
			file = fmt.Sprintf("/proc/%d/root/volume/held", pid)
		}
	}
	write := exec.Command("sh", "-c", `echo $$ > "$0/cgroup.procs" && exec dd if=/dev/zero of="$1" bs=1M count=300`, group(holder), file)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.crashForGood(holder)
	a := s.startUnderPressure([]*cluster.Pod{calm, holder}, "--eviction-hard=memory.available<400Mi")
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.Decision != agent.Evicted || d.UID != holder.UID() || d.Processes != 0 || !toldInTime(d) {
		t.Fatalf("%+v", d)
	}
	s.until("the pod has failed", func() bool { return s.get(holder).Status.Phase == corev1.PodFailed })
	done := s.await(a, agent.ReclaimDone, agent.Evicted, agent.Failed)
	if endedUnreported(d, done) {
		t.Logf("the API server had the status too late for the kubelet: %+v", done)
		return // other pods may be evicted
	}
	if done.Decision != agent.ReclaimDone || done.Reason != "recovered" {
		t.Errorf("%+v", done)
	}
	t.Logf("the memory was freed after %s", done.Time.Sub(d.Time).Round(time.Millisecond))
	s.running(calm)
	s.only(holder)
}

// endedUnreported reports whether the wait for the memory of an evicted pod without processes ended because the
// API server did not answer in time: the kubelet may not know of the eviction. The agent then waits 3 s for memory,
// by its monotonic clock; the times of its decisions may differ by less.
func endedUnreported(d, done *agent.Decision) bool {
	if d.Status != agent.StatusPending || done.Decision != agent.ReclaimDone || done.Reason != "ended" {
		return false
	}
	waited := done.Time.Sub(d.Time) - time.Duration(*d.StatusTime*float64(time.Millisecond))
	return waited >= 2*time.Second
}
