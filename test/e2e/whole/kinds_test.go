package whole

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// TestNode_EndsEveryKindOfHog is one run on one node with pods of every kind that holds memory,
// tasks or disk. Each scenario ends with the one right pod evicted, or none, and without a kill by
// the kernel unless the pod exceeded its own limit.
func TestNode_EndsEveryKindOfHog(t *testing.T) {
	s := newEnv(t, nil)
	s.buildImage()
	s.install()
	idleCritical := s.idleCritical()
	s.arm()
	for _, kind := range []struct {
		name string
		run  func(*env)
	}{
		{"memory as fast as possible", (*env).fastestHog},
		{"memory of several containers", (*env).severalContainers},
		{"memory of a sidecar", (*env).sidecar},
		{"files in memory", (*env).filesInMemory},
		{"memory within a pod-level request", (*env).podLevelRequest},
		{"memory within a resized request", (*env).resizedRequest},
		{"many processes", (*env).manyProcesses},
		{"many threads", (*env).manyThreads},
		{"logs", (*env).logsHog},
		{"writable layer", (*env).layerHog},
		{"runtime crun", (*env).crunHog},
		{"statistics of the runtime", func(s *env) { s.statsProvider("cri") }},
		{"statistics of cAdvisor", func(s *env) { s.statsProvider("cadvisor") }},
	} {
		s.scenario(kind.name, func(s *env) {
			s.withoutKernelKills(func() { kind.run(s) })
		})
	}
	s.scenario("memory limit of a pod", (*env).ownLimit)
	s.do(idleCritical, "fill 1MiB")
}

// withoutKernelKills fails the test if the kernel's OOM killer ends processes in pods meanwhile.
func (s *env) withoutKernelKills(run func()) {
	s.Helper()
	before := s.kernelKills()
	run()
	if now := s.kernelKills(); now > before {
		s.Errorf("the kernel's OOM killer ended %d processes", now-before)
	}
}

// kernelKills returns the number of processes in pods that the kernel's OOM killer ended.
func (s *env) kernelKills() int64 {
	s.Helper()
	kills, err := s.Node.Sandbox.OOMKills()
	s.must(err)
	return kills
}

// calmBeside runs a pod within its request and others.
func (s *env) calmBeside(others ...*corev1.Pod) (calm *cluster.Pod, rest []*cluster.Pod) {
	s.Helper()
	pods := s.pods(append([]*corev1.Pod{requesting(cluster.Hog("calm", "fill 50MiB"), 80*mib)}, others...)...)
	return pods[0], pods[1:]
}

func (s *env) fastestHog() {
	calm, pods := s.calmBeside(cluster.Hog("greedy"))
	s.order(pods[0], "fill 1GiB")
	s.awaitEvicted(pods[0], "memory")
	s.do(calm, "fill 1MiB")
}

// severalContainers compares pods, not containers: the largest container belongs to another pod. Without its growth there is no
// pressure.
func (s *env) severalContainers() {
	parts := cluster.Hog("parts", "fill 220MiB")
	parts.Spec.Containers = append(parts.Spec.Containers, cluster.HogContainer("second", "fill 220MiB"))
	calm, pods := s.calmBeside(cluster.Hog("whole", "fill 230MiB"), parts)
	s.order(pods[0], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitContainersEvicted(pods[1], "memory", "main,second")
	s.do(pods[0], "fill 1MiB")
	s.do(calm, "fill 1MiB")
}

func (s *env) sidecar() {
	pod := cluster.Hog("served")
	always := corev1.ContainerRestartPolicyAlways
	side := cluster.HogContainer("sidecar")
	side.RestartPolicy = &always
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, side)
	calm, pods := s.calmBeside(pod)
	s.must(pods[0].Order(s.Context(), "sidecar", "fill "+s.allExcept(100*mib)+" at 200MiB/s"))
	s.awaitContainersEvicted(pods[0], "memory", "main,sidecar") // main requests nothing either
	s.do(calm, "fill 1MiB")
}

// filesInMemory fills an emptyDir in memory. Its files outlive the processes until the kubelet
// unmounts it: no second pod is evicted meanwhile.
func (s *env) filesInMemory() {
	files := writer("files")
	files.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
	calm, pods := s.calmBeside(cluster.Hog("next", "fill 100MiB"), files)
	s.order(pods[1], "keep "+s.allExcept(100*mib)+" in /volume")
	s.awaitEvicted(pods[1], "memory")
	s.relieved()
	s.do(pods[0], "fill 1MiB")
	s.do(calm, "fill 1MiB")
}

// podLevelRequest runs a pod within the request of the pod, without requests of containers.
func (s *env) podLevelRequest() {
	pod := cluster.Hog("granted", "fill 400MiB")
	request := cluster.Resources(500*mib, 0)
	pod.Spec.Resources = &request
	s.beyondRequest(pod)
}

// resizedRequest resizes a pod in place, so that its memory is within its request.
func (s *env) resizedRequest() {
	s.beyondRequest(requesting(cluster.Hog("granted", "fill 400MiB"), 100*mib), func(granted *cluster.Pod) {
		patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"memory":"%d"}}}]}}`, 500*mib)
		_, err := s.api.CoreV1().Pods(granted.Object.Namespace).Patch(s.Context(), granted.Object.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
		s.must(err)
		s.until("the kubelet has allocated the new request", func() bool {
			return slices.ContainsFunc(s.pod(granted).Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
				return c.AllocatedResources.Memory().Value() == 500*mib
			})
		})
	})
}

// beyondRequest checks that a pod within its request stays, although it uses more memory than
// the one that is evicted.
func (s *env) beyondRequest(granted *corev1.Pod, steps ...func(*cluster.Pod)) {
	s.Helper()
	calm, pods := s.calmBeside(granted, requesting(cluster.Hog("excess", "fill 100MiB"), 100*mib))
	for _, step := range steps {
		step(pods[0])
	}
	s.order(pods[1], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(pods[1], "memory")
	s.do(pods[0], "fill 1MiB")
	s.do(calm, "fill 1MiB")
}

func (s *env) manyProcesses() {
	calm, pods := s.calmBeside(cluster.Hog("bomb"))
	s.order(pods[0], "crowd 2700")
	s.awaitEvicted(pods[0], "pids")
	s.reported(pidPressure)
	s.do(calm, "fill 1MiB")
}

// manyThreads counts threads as tasks. All pods have as many processes, so the priority decides. The threshold is met from
// about 2,100 threads on. Near 2,700 the machine has none left, and Go ends the process: on a slow machine the node's own
// programs have some hundred threads more, which wait.
func (s *env) manyThreads() {
	pods := s.pods(of(topPriority, cluster.Hog("calm", "threads 100")), of(lowPriority, cluster.Hog("many")))
	s.order(pods[1], "threads 2350")
	s.awaitEvicted(pods[1], "pids")
	s.reported(pidPressure)
	s.do(pods[0], "fill 1MiB")
}

// logsHog fills the disk with a rotated log. It stays until the evicted pod is deleted.
func (s *env) logsHog() {
	pods := s.pods(writer("calm"), cluster.Hog("talks"))
	s.write(s.inside(pods[0]), "some", 40*mib)
	free, _ := s.free()
	s.write(filepath.Join(pods[1].Logs, "main"), "0.log.20260101-000000", free-short)
	s.awaitEvicted(pods[1], "ephemeral-storage")
	s.reported(diskPressure)
	s.must(pods[1].Remove(s.Context()))
	s.do(pods[0], "fill 1MiB")
}

func (s *env) layerHog() {
	pods := s.pods(writer("calm"), cluster.Hog("layer"))
	s.write(pods[0].EmptyDir("data"), "some", 40*mib)
	s.fillUntil(short, s.inside(pods[1]))
	s.awaitEvicted(pods[1], "ephemeral-storage")
	s.reported(diskPressure)
	s.do(pods[0], "fill 1MiB")
}

// crunHog runs a pod by crun, which keeps processes one cgroup below the container's.
func (s *env) crunHog() {
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "crun"}, Handler: "crun"}
	_, err := s.api.NodeV1().RuntimeClasses().Create(s.Context(), class, metav1.CreateOptions{})
	s.must(err)
	by := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.RuntimeClassName = &class.Name
		return pod
	}
	pods := s.pods(by(requesting(cluster.Hog("calm", "fill 100MiB"), 120*mib)), by(cluster.Hog("greedy", "fill 100MiB")))
	s.order(pods[1], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(pods[1], "memory")
	s.do(pods[0], "fill 1MiB")
}

// statsProvider evicts with statistics from another source.
func (s *env) statsProvider(name string) {
	s.upgrade(agentConfig(map[string]any{"statsProvider": name}))
	calm, pods := s.calmBeside(cluster.Hog("greedy", "fill 200MiB"))
	s.order(pods[0], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(pods[0], "memory")
	s.do(calm, "fill 1MiB")
	s.relieved()
	s.upgrade(agentConfig(map[string]any{"statsProvider": nil}))
}

// ownLimit exceeds the limit of a pod. The kernel ends the whole container (memory.oom.group) and
// the kubelet restarts it: the node has memory, so nothing is evicted.
func (s *env) ownLimit() {
	limited := cluster.Hog("limited", "fork 3")
	limited.Spec.Containers[0].Resources = cluster.Resources(0, 64*mib)
	pods := s.pods(cluster.Hog("calm", "fill 100MiB"), limited)
	s.order(pods[1], "fill 200MiB")
	s.until("the container is restarted after its OOM kill", func() bool {
		return slices.ContainsFunc(s.pod(pods[1]).Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			end := c.LastTerminationState.Terminated
			return end != nil && end.Reason == "OOMKilled" && c.RestartCount > 0
		})
	})
	if kills := s.kernelKills(); kills == 0 {
		s.Errorf("the kernel's OOM killer ended no process")
	}
	s.do(pods[0], "fill 1MiB")
}
