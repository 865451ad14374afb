package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// withKubelet is a node with a kubelet that does not evict unless configured to.
func withKubelet(config map[string]any) cluster.Options {
	return cluster.Options{Components: cluster.APIServer | cluster.Containerd | cluster.Kubelet,
		Node: cluster.NodeOptions{Memory: 768 * mib, KubeletConfig: config}}
}

// evictions returns the number of immediate evictions to try: a few in every run of the tests,
// 100 for the figures in docs/internals/measurements.md (make bench-evictions).
func evictions(t *testing.T) int {
	text := os.Getenv("EVICTIONS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("EVICTIONS=%s: not a number of evictions", text)
	}
	return n
}

// always is a pod that a kubelet restarts whenever it ends.
func always(name string) *corev1.Pod {
	pod := cluster.Hog(name, "fill 8MiB")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return pod
}

// ahead is the number of running pods before the first eviction. A kubelet that synchronises a
// pod between its status and its death drops the reason (docs/internals/decisions/017). It does
// so mostly within its first seconds.
const ahead = 8

// TestEvict_BesideKubelet checks that a pod reported first and killed at once
// stays evicted. Phase, reason and message last, whatever its kubelet writes, and nothing
// restarts. Without a policy only the condition plimsoll.dev/Evicted must remain, and the figures are logged.
func TestEvict_BesideKubelet(t *testing.T) {
	for _, name := range protections(t) {
		t.Run(name, func(t *testing.T) { evictedFor(t, protectionOf[name]) })
	}
}

func evictedFor(t *testing.T, by protection) {
	s := newEnv(t, withKubelet(nil))
	by.apply(s)
	a := s.start("--eviction-hard=memory.available<200Mi")
	spec := always("calm") // most of the node's memory, all within its request
	spec.Spec.Containers[0].Resources = cluster.Resources(400*mib, 600*mib)
	calm := s.add(spec)
	if err := calm.Do(t.Context(), "fill 340MiB"); err != nil {
		t.Fatal(err)
	}
	n, v := evictions(t), s.watchPods()
	messages := map[string]string{} // by name
	var waiting, done []*cluster.Pod
	var exitMillis []float64
	early := 0 // before the kill
	for i := range n + ahead {
		if i < n {
			waiting = append(waiting, s.add(always(fmt.Sprintf("greedy-%d", i))))
		}
		if i < ahead {
			continue
		}
		p := waiting[0]
		waiting, done = waiting[1:], append(done, p)
		s.knows(p)
		s.noteStarts(p)
		s.order(p, "fill 275MiB at 200MiB/s") // 50 to 130 MiB are left, depending on the pods that wait
		d := s.await(a, agent.Evicted, agent.Failed)
		if d.Pod != "default/"+p.Object.Name || d.ExitTime == nil && !d.ProcessesRemain {
			t.Fatalf("eviction %d: %+v", i-ahead, d)
		}
		if d.Status == agent.StatusReported {
			early++
		}
		s.exited(p) // the next fill counts on its memory
		messages[p.Object.Name] = d.Message
		if d.ExitTime != nil {
			exitMillis = append(exitMillis, *d.ExitTime)
		}
		if len(done)%10 == 0 { // an hour of them is not silent
			t.Logf("%d of %d evictions, %d reported before the kill", len(done), n, early)
		}
	}
	s.settled(done)
	v.window(watched())
	t.Logf("%d evictions, %d reported before the kill", n, early)
	if slices.Sort(exitMillis); len(exitMillis) > 0 { // on a slow machine, processes remain when the line is written
		t.Logf("%d of them with the exit of the last process in their line: median %.1f ms after the check, maximum %.1f ms", len(exitMillis), exitMillis[len(exitMillis)/2], exitMillis[len(exitMillis)-1])
	}
	by.check(s, v, done, messages)
	for _, p := range done {
		if events := s.events(p, "Evicted"); len(events) != 1 {
			t.Errorf("pod %s: %d events", p.Object.Name, len(events))
		}
	}
	s.running(calm)
	s.noOOM()
}

// restartEnded is in the agent's log when it has ended a container that the kubelet had started in an evicted pod.
const restartEnded = "Killed the containers that the kubelet had started in an evicted pod"

// TestEvict_KubeletObservesDeathFirst: a kubelet may observe the death of a container before the
// status of the pod. It then starts the container again, and the agent ends that. Once the kubelet has
// the status, it ends the pod. The status stays, and no other pod is evicted.
func TestEvict_KubeletObservesDeathFirst(t *testing.T) {
	t.Parallel()
	o := withKubelet(nil)
	o.Node.KubeletLinked = true
	s := newEnv(t, o)
	protectionOf["mutating"].apply(s)
	a := s.start("--eviction-hard=memory.available<200Mi")
	calm, p := s.add(always("calm")), s.add(always("greedy"))
	s.knows(p)
	s.noteStarts(p)
	v := s.watchPods()
	s.Link.Stall()
	s.order(p, "fill 600MiB at 200MiB/s")
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.Pod != "default/greedy" || d.Status != agent.StatusReported {
		t.Fatalf("decision %+v", d)
	}
	s.until("the agent ends the container that the kubelet has started", func() bool {
		return a.Warned(restartEnded, p.UID())
	})
	s.must(s.Link.Pass())
	v.window(watched())
	s.settled([]*cluster.Pod{p})
	v.expectNoLoss()
	s.checkReports(p, d.Message, "memory")
	s.until("the runtime or the kubelet's events show the new start", func() bool { return len(s.startedAgain([]*cluster.Pod{p})) == 1 })
	s.only(p)
	s.running(calm)
}

// settled waits until the runtime runs no containers of the pods.
func (s *env) settled(pods []*cluster.Pod) {
	s.t.Helper()
	s.until("the runtime runs no container of the pods", func() bool {
		return !slices.ContainsFunc(s.containersOf(pods), func(c *runtimeapi.Container) bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING })
	})
}

// containersOf returns the containers of the pods in the runtime, including dead ones.
func (s *env) containersOf(pods []*cluster.Pod) (found []*runtimeapi.Container) {
	s.t.Helper()
	all, err := s.Node.Runtime.ListContainers(s.t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range all.Containers {
		if slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.UID() == c.Labels["io.kubernetes.pod.uid"] }) {
			found = append(found, c)
		}
	}
	return found
}

// noteStarts stores how often the container of a pod has been started before its eviction.
func (s *env) noteStarts(p *cluster.Pod) {
	s.t.Helper()
	if s.starts == nil {
		s.starts = map[string]int32{}
	}
	for _, c := range s.get(p).Status.ContainerStatuses {
		if s.starts[p.UID()] = c.RestartCount + 1; c.RestartCount > 0 {
			s.t.Logf("pod %s: its container ended before the eviction: %+v", p.Object.Name, c.LastTerminationState.Terminated)
		}
	}
}

// startedAgain returns the pods with containers that were started after noteStarts, by the runtime and the kubelet's
// events. The restart count of a status is no evidence: a kubelet removes the containers of an evicted pod at once. If it has
// not read how one ended, it adds one to the count, with the reason ContainerStatusUnknown.
func (s *env) startedAgain(pods []*cluster.Pod) (again []*cluster.Pod) {
	s.t.Helper()
	starts := map[string]int32{} // by the pod's UID
	for _, c := range s.containersOf(pods) {
		uid := c.Labels["io.kubernetes.pod.uid"]
		starts[uid] = max(starts[uid], int32(c.Metadata.Attempt)+1)
	}
	events, err := s.API.CoreV1().Events(metav1.NamespaceAll).List(s.t.Context(), metav1.ListOptions{FieldSelector: "reason=Started"}) // stored for an hour
	if err != nil {
		s.t.Fatal(err)
	}
	reported := map[string]int32{}
	for _, e := range events.Items {
		reported[string(e.InvolvedObject.UID)] += max(e.Count, 1)
	}
	for _, p := range pods {
		if max(starts[p.UID()], reported[p.UID()]) > s.starts[p.UID()] {
			again = append(again, p)
		}
	}
	return again
}

// restartsInStatus returns the containers of the pods with more restarts in their status than at noteStarts.
func (s *env) restartsInStatus(pods []*cluster.Pod) (found []corev1.ContainerStatus) {
	s.t.Helper()
	for _, p := range pods {
		for _, c := range s.get(p).Status.ContainerStatuses {
			if c.RestartCount >= s.starts[p.UID()] {
				found = append(found, c)
			}
		}
	}
	return found
}
