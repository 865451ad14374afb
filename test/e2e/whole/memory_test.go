package whole

import (
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// idleCritical is an idle critical pod. It keeps the image of hogs in use, so that garbage collection
// does not remove it.
func (s *env) idleCritical() *cluster.Pod {
	s.Helper()
	return s.run(of("system-node-critical", cluster.Hog("keeper")))
}

func (s *env) memoryHog() {
	pods := s.pods(requesting(cluster.Hog("calm", "fill 100MiB"), 120*mib), cluster.Hog("greedy", "fill 100MiB"))
	calm, greedy := pods[0], pods[1]
	s.picture("before")
	s.order(greedy, "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(greedy, "memory")
	s.reported(memoryPressure)
	s.picture("under pressure")
	s.do(calm, "fill 1MiB")
	s.relieved()
	s.picture("after")
}

// memoryOrder runs two pods above their requests. The smaller one has lower priority and must
// be evicted first; a pod within its request never is.
func (s *env) memoryOrder() {
	pods := s.pods(
		of(lowPriority, requesting(cluster.Hog("modest", "fill 150MiB"), 180*mib)),
		of(lowPriority, cluster.Hog("less", "fill 150MiB")),
		of(highPriority, cluster.Hog("more", "fill 200MiB")))
	modest, less, more := pods[0], pods[1], pods[2]
	// At this rate a periodic check occurs before the kubelet's threshold is met, at any phase
	// of the kubelet's checks.
	s.order(more, "fill 1GiB at 50MiB/s")
	s.awaitEvicted(less, "memory")
	s.awaitEvicted(more, "memory")
	s.inOrder(less, more)
	s.reported(memoryPressure)
	s.do(modest, "fill 1MiB")
}

// criticalStays gives all memory to a critical static pod: others are evicted, it stays.
func (s *env) criticalStays() {
	pod := s.Node.Prepare(of("system-node-critical", cluster.Hog("static", "fill 100MiB")))
	pod.UID = types.UID("b9d4e7e6-53c5-4f0e-8f57-2f9a8c1d7a10")
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Spec.NodeName = cluster.NodeName
	text, err := yaml.Marshal(pod)
	s.must(err)
	manifest := filepath.Join(s.static, "static.yaml")
	s.must(os.WriteFile(manifest, text, 0o600))
	static := s.Node.Pod(pod)
	small := s.run(cluster.Hog("small", "fill 50MiB"))
	s.do(static, "fill 1MiB")
	s.order(static, "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(small, "memory")
	s.reported(memoryPressure)
	s.do(static, "release")
	s.relieved()
	s.must(os.Remove(manifest))
	s.poll("the static pod has ended", func() bool {
		pids, err := static.PIDs()
		s.must(err)
		return len(pids) == 0
	})
}

// allExcept returns the amount for a hog that leaves the given memory for pods on the node: between
// the thresholds of the agent and of the kubelet, or below.
func (s *env) allExcept(left int64) string {
	s.Helper()
	used, err := s.Node.Sandbox.WorkingSet()
	s.must(err)
	return fmt.Sprint(podsMemory - left - used)
}

// of sets the priority class of a pod.
func of(class string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.PriorityClassName = class
	return pod
}

// requesting sets the memory request of a pod.
func requesting(pod *corev1.Pod, bytes int64) *corev1.Pod {
	pod.Spec.Containers[0].Resources = cluster.Resources(bytes, 0)
	return pod
}

// pidOrder runs two pods with many threads; the one with lower priority must be evicted first.
// Threads are PIDs, but pods are ranked by processes, as by a kubelet: all have two.
func (s *env) pidOrder() {
	pods := s.pods(
		of(topPriority, cluster.Hog("calm", "threads 100")),
		of(lowPriority, cluster.Hog("less", "threads 600")),
		of(highPriority, cluster.Hog("more", "threads 900")))
	less, more := pods[1], pods[2]
	s.order(more, "threads 790") // 400 are left: 200 below the threshold, and enough for the runtime
	s.awaitEvicted(less, "pids")
	s.reported(pidPressure)
	s.order(more, "threads 600")
	s.awaitEvicted(more, "pids")
	s.inOrder(less, more)
}
