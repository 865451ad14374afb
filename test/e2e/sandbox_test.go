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

// crash kills the container's processes, and waits until the kubelet reports that.
func (s *env) crash(p *cluster.Pod, restarts int32) {
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
	s.until("the container waits for its restart", func() bool {
		got := s.get(p).Status.ContainerStatuses
		waits := len(got) == 1 && got[0].State.Waiting != nil && got[0].State.Waiting.Reason == "CrashLoopBackOff"
		return waits || len(got) == 1 && got[0].State.Running != nil && got[0].RestartCount > restarts
	})
}

// TestEvict_PodWithoutProcessesBesideKubelet covers a container that has filled a volume in
// memory and crashes. Between two of its runs the pod has no process but its sandbox. The
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
	for restarts := int32(0); s.get(holder).Status.ContainerStatuses[0].State.Waiting == nil; restarts++ {
		s.crash(holder, restarts)
	}
	s.must(os.WriteFile(s.disarmFile(), nil, 0o600)) // until the agent knows which containers run
	a := s.start("--eviction-hard=memory.available<400Mi")
	s.knows(calm, holder)
	s.await(a, agent.WouldEvict)
	s.must(os.Remove(s.disarmFile()))
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
