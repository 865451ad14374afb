package whole

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// disarmedAndArmed checks that the agent, installed disarmed, reports its decisions without
// acting on them. Armed, it acts.
func (s *env) disarmedAndArmed() {
	pods := s.pods(requesting(cluster.Hog("calm", "fill 50MiB"), 60*mib), cluster.Hog("greedy", "fill 100MiB"))
	calm, greedy := pods[0], pods[1]
	s.do(greedy, "fill "+s.allExcept(100*mib))
	reporter := s.agent()
	s.poll("the agent reports the pod that it would evict", func() bool {
		return slices.ContainsFunc(s.decisions(reporter), func(d agent.Decision) bool {
			return d.Decision == agent.WouldEvict && d.UID == greedy.UID() && d.Message != ""
		})
	})
	s.agentBeats(1)
	if p := s.pod(greedy); p.Status.Phase != corev1.PodRunning || p.Condition(corev1.DisruptionTarget).Status != "" {
		s.Errorf("the pod was touched: %+v", p.Status)
	}
	for _, n := range s.nodeStates(s.began) {
		for _, c := range n.Status.Conditions {
			if strings.HasPrefix(string(c.Type), "plimsoll.dev/") {
				s.Fatalf("the node was touched: %+v", c)
			}
		}
	}
	s.arm()
	s.awaitEvicted(greedy, "memory")
	s.reported(memoryPressure)
	s.do(calm, "fill 1MiB")
}

// arm arms the node's agent as an administrator and checks its acknowledgement.
func (s *env) arm() {
	s.Helper()
	output, err := s.plimsoll("arm", cluster.NodeName)
	if err != nil {
		s.Fatalf("plimsoll arm: %v\n%s", err, output)
	}
	if lease := s.lease().Annotations; lease["plimsoll.dev/armed"] != "true" {
		s.Errorf("plimsoll arm printed %q, lease %v", output, lease)
	}
}

// lease returns the agent's lease.
func (s *env) lease() *coordinationv1.Lease {
	s.Helper()
	lease, err := s.api.CoordinationV1().Leases(namespace).Get(context.WithoutCancel(s.Context()), cluster.NodeName, metav1.GetOptions{})
	s.must(err)
	return lease
}

// disarmedUnderPressure checks that an agent disarmed under pressure stops: the next pod that
// it would evict stays.
func (s *env) disarmedUnderPressure() {
	pods := s.pods(of("system-node-critical", cluster.Hog("ballast", "fill 50MiB")), cluster.Hog("first", "fill 5MiB"))
	ballast, first := pods[0], pods[1]
	s.do(ballast, "fill "+s.allExcept(100*mib)+" at 500MiB/s")
	s.awaitEvicted(first, "memory")
	s.reported(memoryPressure)
	s.Cleanup(s.arm)
	if output, err := s.plimsoll("disarm", cluster.NodeName); err != nil || s.lease().Annotations["plimsoll.dev/armed"] != "false" {
		s.Fatalf("plimsoll disarm: %v\n%s", err, output)
	}
	next := s.run(cluster.Hog("next", "fill 5MiB"))
	reporter := s.agent()
	s.poll("the agent would evict the next pod", func() bool {
		return slices.ContainsFunc(s.decisions(reporter), func(d agent.Decision) bool { return d.Decision == agent.WouldEvict && d.UID == next.UID() })
	})
	s.do(ballast, "release")
	s.do(next, "fill 1MiB")
}
