package whole

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// softly adds a soft threshold far above the hard one, with the grace period of the threshold
// and that of pods, in seconds.
func softly(line, grace string, pods int) map[string]any {
	return agentConfig(map[string]any{
		"evictionSoft":              map[string]any{"allocatableMemory.available": line},
		"evictionSoftGracePeriod":   map[string]any{"allocatableMemory.available": grace},
		"evictionMaxPodGracePeriod": pods,
	})
}

// softEviction covers a pod that ignores SIGTERM. It gets the shorter of its own grace period
// and the agent's. The agent requests the eviction, the controller posts it, the kubelet
// executes it.
func (s *env) softEviction() {
	s.reconfigure(softly("400Mi", "4s", 6))
	slow := cluster.Hog("slow", "term ignore", "fill 300MiB")
	slow.Spec.TerminationGracePeriodSeconds = new(int64(60))
	pods := s.pods(requesting(cluster.Hog("calm", "fill 50MiB"), 60*mib), slow)
	calm, greedy := pods[0], pods[1]
	s.expectEvicted[greedy.Object.UID] = true
	s.order(greedy, "fill "+s.allExcept(300*mib))
	s.until("the pod is in deletion", func() bool { return s.pod(greedy).Leaving() })
	asked := s.first(greedy, (*recorder.Pod).Leaving)
	if grace := asked.DeletionGracePeriodSeconds; grace == nil || *grace != 6 {
		s.Errorf("the pod has %v s to end", grace)
	}
	if met := s.since(memoryPressure); asked.At.Sub(met) < 3*time.Second {
		s.Errorf("pressure since %v, deletion at %v", met, asked.At)
	}
	s.until("the pod is removed", func() bool { return s.pod(greedy).Gone })
	if elapsed := s.pod(greedy).At.Sub(asked.At); elapsed < 5*time.Second || elapsed >= 60*time.Second { // its own grace period
		s.Errorf("its grace period was %v", elapsed)
	}
	s.event(greedy, "The node was low on resource: memory. Threshold quantity: 400Mi")
	s.do(calm, "fill 1MiB")
	s.relieved()
	s.reconfigure(agentConfig(map[string]any{"evictionSoft": nil, "evictionSoftGracePeriod": nil}))
}

// first returns the first state of a pod that meets a condition.
func (s *env) first(p *cluster.Pod, so func(*recorder.Pod) bool) *recorder.Pod {
	s.Helper()
	for _, state := range s.rec.PodStates(p.Object.UID) {
		if so(state) {
			return state
		}
	}
	s.Fatalf("pod %s never had the state", p.Object.Name)
	return nil
}

// since returns the time at which a condition was first True in this scenario.
func (s *env) since(kind corev1.NodeConditionType) time.Time {
	s.Helper()
	for _, n := range s.rec.NodeStates(cluster.NodeName) {
		if n.At.After(s.began) && n.Is(kind) == corev1.ConditionTrue {
			return n.At
		}
	}
	s.Fatalf("%s was never True", kind)
	return time.Time{}
}
