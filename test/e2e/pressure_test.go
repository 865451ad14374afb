package e2e

import (
	"testing"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/cluster"
)

// withoutKubelet is a node that only the agent looks after.
func withoutKubelet(n cluster.NodeOptions) cluster.Options {
	if n.Memory == 0 {
		n.Memory = 512 * mib
	}
	return cluster.Options{Components: cluster.APIServer | cluster.Containerd, Node: n}
}

// hard100 is the one threshold of most tests.
const hard100 = "--eviction-hard=memory.available<100Mi"

func TestMemoryPressure(t *testing.T) {
	s := set(t, withoutKubelet(cluster.NodeOptions{}))
	calm := s.add(cluster.Hog("calm", "fill 50MiB"))
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	a := s.start(hard100)
	if err := greedy.Order(t.Context(), "main", "fill 1GiB at 200MiB/s"); err != nil {
		t.Fatal(err)
	}
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.Pod != "default/greedy" || d.Status != agent.StatusTold {
		t.Errorf("decision: %+v", d)
	}
	evicted(t, s.get(greedy), d.Message)
	if events := s.events(greedy, "Evicted"); len(events) != 1 || events[0].Message != d.Message || events[0].Annotations["starved_resource"] != "memory" {
		t.Errorf("events: %+v", events)
	}
	s.await(a, agent.Settled)
	s.running(calm)
}

func TestPIDPressure(t *testing.T) {
	s := set(t, withoutKubelet(cluster.NodeOptions{Pids: 400}))
	calm, greedy := s.add(cluster.Hog("calm", "fork 20")), s.add(cluster.Hog("greedy"))
	a := s.start("--eviction-hard=pid.available<150")
	s.knows(calm, greedy)
	s.order(greedy, "fork 280")
	d := s.evicts(a, greedy, "pids")
	if d.Signal != "pid.available" || d.Lingering {
		t.Errorf("decision: %+v", d)
	}
	if pids, err := greedy.PIDs(); err != nil || len(pids) > 0 {
		t.Errorf("processes %v are left (%v)", pids, err)
	}
	s.await(a, agent.Settled)
	s.only(greedy)
	s.running(calm)
}
