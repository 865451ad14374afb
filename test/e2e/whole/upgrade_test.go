package whole

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

const (
	// nextTag is a second tag of the image. To Kubernetes it is another image, so that a new pod
	// replaces the agent's.
	nextTag = "whole-next"
	// growth in bytes per second, and lead in bytes above the agent's threshold at its begin.
	growth = 20 * mib
	lead   = 150 * mib
)

// TestNode_UpgradesWhileMemoryGrows rolls the release back and upgrades it again, REPEAT rollouts in all.
// Meanwhile the memory of a pod grows at a constant rate, and crosses the agent's threshold at another
// moment of each rollout. Without an agent, the kubelet is the backstop at its lower threshold.
func TestNode_UpgradesWhileMemoryGrows(t *testing.T) {
	s := newEnv(t, nil)
	s.buildImage()
	s.must(s.Node.Tag(s.Context(), reference, strings.TrimSuffix(reference, tag)+nextTag))
	s.install()
	idleCritical := s.idleCritical()
	s.arm()
	began := time.Now()
	s.upgrade(map[string]any{"image": map[string]any{"tag": nextTag}})
	took := time.Since(began)
	n, round, byKubelet := repeats(t), 0, 0
	rollouts := [][]string{
		{"rollback", releaseName},
		s.release.args("upgrade"),
	}
	s.scenario("rollout", func(s *env) {
		s.withoutKernelKills(func() {
			if s.rolledOut(fmt.Sprintf("greedy-%d", round), rollouts[round%2], took*time.Duration(2*round+1)/time.Duration(2*n)) {
				byKubelet++
			}
		})
		round++
	})
	t.Logf("a rollout takes %v; %d rollouts, the kubelet evicted in %d of them", took.Round(time.Second/10), n, byKubelet)
	s.do(idleCritical, "fill 1MiB")
}

// rolledOut runs helm so that the memory of the named pod crosses the agent's threshold that long after the
// begin. It reports whether the kubelet evicted the pod. Pods of one name would share the backoff of one owner.
func (s *env) rolledOut(grows string, helm []string, crossing time.Duration) (byKubelet bool) {
	pods := s.pods(requesting(cluster.Hog("calm", "fill 100MiB"), 120*mib), cluster.Hog(grows, "fill 50MiB"))
	calm, greedy := pods[0], pods[1]
	before := s.agent()
	s.do(greedy, "fill "+s.allExcept(150*mib+lead)+" at 500MiB/s")
	done := make(chan error, 1)
	first := func() { go func() { done <- s.tryHelm(helm...) }() }
	second := func() { s.order(greedy, fmt.Sprintf("fill 1GiB at %dMiB/s", growth/mib)) }
	pause := crossing - time.Second*lead/growth
	if pause < 0 {
		first, second, pause = second, first, -pause
	}
	first()
	<-time.After(pause) // a phase of the rollout, not an event
	second()
	s.awaitEvicted(greedy, "memory")
	s.must(<-done)
	if after := s.agent(); after.Object.UID == before.Object.UID {
		s.Errorf("the agent is still %s", after.Object.Name)
	}
	s.do(calm, "fill 1MiB")
	message := s.first(greedy, evicted).Status.Message
	byKubelet = strings.Contains(message, "Threshold quantity: "+backstop["allocatableMemory.available"])
	s.Logf("%s, threshold crossed %v after its begin: %s", helm[0], crossing.Round(time.Second/10), message)
	return byKubelet
}
