package whole

import (
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent"
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
	met, evicting := s.softDecisions(greedy)
	// The agent compares by its monotonic clock, which it reads after the time of the log: 4 s may look shorter.
	if elapsed := evicting.Time.Sub(met.Time); elapsed < 3*time.Second {
		s.Errorf("soft eviction %s after the threshold was met: %+v", elapsed, met)
	}
	s.reported(memoryPressure)
	s.until("the pod is in deletion", func() bool { return s.pod(greedy).Leaving() })
	asked := s.first(greedy, (*recorder.Pod).Leaving)
	if grace := asked.DeletionGracePeriodSeconds; grace == nil || *grace != 6 { // not 60: its own
		s.Fatalf("the pod has %v s to end", grace)
	}
	// The API server adds the grace period to the time of the request, and truncates to seconds.
	deleted := asked.DeletionTimestamp.Add(-6 * time.Second)
	if deleted.Before(evicting.Time.Truncate(time.Second)) {
		s.Errorf("deletion at %v, soft eviction at %v", deleted, evicting.Time)
	}
	s.until("the pod is removed", func() bool { return s.pod(greedy).Gone })
	if elapsed := exit(s.first(greedy, exited)).Sub(deleted); elapsed < 5*time.Second || elapsed >= 60*time.Second { // its own grace period
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

// softDecisions waits until the agent evicts a pod softly. It returns that decision, and the one by which the
// threshold of 400Mi was met. Their times are those of the checks, regardless of when they are read.
func (s *env) softDecisions(p *cluster.Pod) (met, evicting agent.Decision) {
	s.Helper()
	reporter := s.agent()
	s.poll("the agent evicts the pod softly", func() bool {
		for _, d := range s.decisions(reporter) {
			switch {
			case d.Time.Before(s.began):
			case d.Decision == agent.Pending && strings.HasSuffix(d.Threshold, "<400Mi for 4s"):
				met = d
			case d.Decision == agent.SoftEvicting && d.UID == p.UID():
				evicting = d
				return true
			}
		}
		return false
	})
	if met.Decision == "" {
		s.Fatalf("no decision in the grace period before %+v", evicting)
	}
	return met, evicting
}

// exit returns the time at which the pod's container exited, by its runtime; zero before.
func exit(p *recorder.Pod) time.Time {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			return c.State.Terminated.FinishedAt.Time
		}
	}
	return time.Time{}
}

func exited(p *recorder.Pod) bool { return !exit(p).IsZero() }
