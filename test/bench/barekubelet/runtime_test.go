package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// barePod makes the directory of a pod with a file of processes, and returns a function that sets them.
func barePod(t *testing.T, root, uid string) func(pids ...int) {
	t.Helper()
	dir := filepath.Join(root, "burstable", "pod"+uid)
	if err := os.MkdirAll(filepath.Join(dir, "main"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	write("memory.current", "5000\n")
	write("memory.stat", "anon 1000\ninactive_file 2000\nactive_file 7\n")
	write("cgroup.procs", "")
	return func(pids ...int) {
		write("main/cgroup.procs", strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", "\n"), "[]"))
	}
}

// startBare performs what a kubelet does for a new pod.
func startBare(t *testing.T, r *runtime, uid string) (sandbox, container string) {
	t.Helper()
	s, err := r.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}, Labels: map[string]string{"uid": uid},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: s.PodSandboxId, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Labels: map[string]string{"uid": uid},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		t.Fatal(err)
	}
	return s.PodSandboxId, c.ContainerId
}

func stateOf(t *testing.T, r *runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	answer, err := r.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

// TestRuntime_FollowsProcesses starts a pod before its first process, and ends the process.
func TestRuntime_FollowsProcesses(t *testing.T) {
	root := t.TempDir()
	set := barePod(t, root, "u-1")
	ready := 0
	r := newRuntime(&pods{root}, 2, func() { ready++ })
	sandbox, id := startBare(t, r, "u-1")
	if s := stateOf(t, r, id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING || s.StartedAt == 0 || ready != 0 {
		t.Errorf("without a process yet: %v, ready %d", s, ready)
	}
	_, other := startBare(t, r, "u-2")
	if ready != 1 {
		t.Errorf("both pods are started, ready %d times", ready)
	}
	set(12345)
	if s := stateOf(t, r, id); s.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("with a process: %v", s)
	}
	stats, err := r.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox}})
	if err != nil || len(stats.Stats) != 1 || stats.Stats[0].Memory.WorkingSetBytes.Value != 3000 || stats.Stats[0].Memory.UsageBytes.Value != 5000 {
		t.Errorf("stats %v, %v, want a working set of 3000 of 5000 bytes", stats, err)
	}
	set()
	if s := stateOf(t, r, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED || s.ExitCode != killed || s.FinishedAt == 0 {
		t.Errorf("after its process: %v", s)
	}
	running, err := r.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}})
	if err != nil || len(running.Containers) != 1 || running.Containers[0].Id != other {
		t.Errorf("running %v, %v, want %s", running, err, other)
	}
}

func TestRuntime_ListsBySelector(t *testing.T) {
	r := newRuntime(&pods{t.TempDir()}, 0, nil)
	first, _ := startBare(t, r, "u-1")
	second, _ := startBare(t, r, "u-2")
	found, err := r.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"uid": "u-2"}}})
	if err != nil || len(found.Items) != 1 || found.Items[0].Id != second {
		t.Errorf("got %v, %v, want %s", found, err, second)
	}
	if _, err := r.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: first}); err != nil {
		t.Fatal(err)
	}
	status, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: first})
	if err != nil || status.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY || status.Status.Linux.Namespaces.Options.Network != runtimeapi.NamespaceMode_NODE {
		t.Errorf("got %v, %v", status, err)
	}
	if _, err := r.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: first}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: first}); err == nil {
		t.Error("a removed sandbox has a status")
	}
}

// TestStopContainer_Escalates stops a process that ignores SIGTERM. Nothing but its PID in the file of the pod
// leads to it.
func TestStopContainer_Escalates(t *testing.T) {
	root := t.TempDir()
	set := barePod(t, root, "u-1")
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo ready; while true; do sleep 600 & wait $!; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }() // its sleep
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		set()
		ended <- err
	}()
	set(cmd.Process.Pid)
	r := newRuntime(&pods{root}, 0, nil)
	_, id := startBare(t, r, "u-1")
	begin := time.Now()
	if _, err := r.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 1}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("killed after %v, before the grace period was over", took)
	}
	err = <-ended
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", err)
	}
	if s := stateOf(t, r, id); s.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("stopped: %v", s)
	}
}

func TestManifests_AreServedWhenTheyAppear(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = `{"kind":"Pod","metadata":{"name":"%s","namespace":"default","uid":"u"},"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"7"}}}]}}`
	write("first.json", fmt.Sprintf(text, "first"))
	write("other.txt", "x")
	a, failed := newAPI(), make(chan error, 1)
	n, err := (&options{manifests: dir}).follow(a, failed)
	if err != nil || n != 1 {
		t.Fatalf("%d pods, %v, want 1", n, err)
	}
	stored := func(name string) object {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.objects["pods/default/"+name]
	}
	spec, _ := stored("first")["spec"].(object)
	resources := spec["containers"].([]any)[0].(object)["resources"].(object)
	if spec["nodeName"] != nodeName || spec["restartPolicy"] != "Never" || spec["hostNetwork"] != true || resources["requests"].(object)["memory"] != "7" {
		t.Errorf("got %v", spec)
	}
	write("later.json", fmt.Sprintf(text, "later"))
	await(t, "the later pod", func() bool { return stored("later") != nil })
	write("wrong.json", `{"kind":"Pod"}`)
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "wrong.json") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
