package whole

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/cluster"
)

// Installed disarmed, the agent says what it would do, and touches nothing; armed,
// it does it; disarmed under pressure, it stops.
func (s *stage) disarmedAndArmed() {
	pods := s.pods(asking(cluster.Hog("calm", "fill 50MiB"), 60*mib), cluster.Hog("greedy", "fill 100MiB"))
	calm, greedy := pods[0], pods[1]
	s.do(greedy, "fill "+s.allBut(100*mib))
	who := s.agent()
	s.poll("the agent says whom it would evict", func() bool {
		return slices.ContainsFunc(s.decisions(who), func(d agent.Decision) bool {
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
	s.goes(greedy, "memory")
	s.reported(memoryPressure)
	s.relieved()
	s.disarmedUnderPressure()
	s.do(calm, "fill 1MiB")
}

// arm has the node's agent armed by who administrates, and checks that it says so.
func (s *stage) arm() {
	s.Helper()
	said, err := s.plimsoll("arm", cluster.NodeName)
	if err != nil {
		s.Fatalf("plimsoll arm: %v\n%s", err, said)
	}
	if lease := s.lease(); lease["plimsoll.dev/armed"] != "true" {
		s.Errorf("plimsoll arm said %q, the lease %v", said, lease)
	}
}

// lease is what the agent's says.
func (s *stage) lease() map[string]string {
	s.Helper()
	lease, err := s.api.CoordinationV1().Leases(namespace).Get(s.Context(), cluster.NodeName, metav1.GetOptions{})
	s.must(err)
	return lease.Annotations
}

// disarmedUnderPressure presses, disarms, and feeds a pod to the agent that it
// would evict: within a second after the word nobody goes any more.
func (s *stage) disarmedUnderPressure() {
	ballast := s.ballast()
	s.do(ballast, "fill "+s.allBut(120*mib)+" at 500MiB/s")
	s.until("the node is short of memory", func() bool { return s.node().Is(memoryPressure) == corev1.ConditionTrue })
	began := time.Now()
	said, err := s.plimsoll("disarm", cluster.NodeName)
	if err != nil {
		s.Fatalf("plimsoll disarm: %v\n%s", err, said)
	}
	s.Logf("plimsoll disarm took %v: %s", time.Since(began).Round(time.Millisecond), said)
	bait := s.run(asking(cluster.Hog("bait", "fill 5MiB"), 1*mib))
	who := s.agent()
	s.poll("the agent would evict the bait", func() bool {
		return slices.ContainsFunc(s.decisions(who), func(d agent.Decision) bool { return d.Decision == agent.WouldEvict && d.UID == bait.UID() })
	})
	s.do(ballast, "release")
	s.do(bait, "fill 1MiB")
	s.arm()
}
