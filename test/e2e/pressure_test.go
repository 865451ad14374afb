package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// withoutKubelet is a node managed by the agent alone.
func withoutKubelet(n cluster.NodeOptions) cluster.Options {
	if n.Memory == 0 {
		n.Memory = 512 * mib
	}
	return cluster.Options{Components: cluster.APIServer | cluster.Containerd, Node: n}
}

// hard100 is the only threshold of most tests.
const hard100 = "--eviction-hard=memory.available<100Mi"

func TestEvict_ForMemoryPressure(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	calm := s.add(cluster.Hog("calm", "fill 50MiB"))
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	a := s.start(hard100)
	s.knows(calm, greedy)
	s.order(greedy, fast)
	s.evicts(a, greedy, "memory")
	s.await(a, agent.ReclaimDone)
	s.running(calm)
}

func TestEvict_ForPIDPressure(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Pids: 400}))
	calm, greedy := s.add(cluster.Hog("calm", "fork 20")), s.add(cluster.Hog("greedy"))
	a := s.start("--eviction-hard=pid.available<150")
	s.knows(calm, greedy)
	s.order(greedy, "fork 280")
	d := s.evicts(a, greedy, "pids")
	if d.Signal != "pid.available" {
		t.Errorf("decision: %+v", d)
	}
	s.exited(greedy)
	s.await(a, agent.ReclaimDone)
	s.only(greedy)
	s.running(calm)
}

// TestEvict_StartsNoThread: if a fork bomb has used up the PIDs of the machine, the kernel refuses
// threads to the agent too. Go ends a program that needs one, and the bomb would remain.
func TestEvict_StartsNoThread(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Pids: 400}))
	apart := sandbox.Make(t, "agent", sandbox.MaxLimit)
	calm, bomb, greedy := s.add(cluster.Hog("calm", "fork 20")), s.add(cluster.Hog("bomb")), s.add(cluster.Hog("greedy", "fill 50MiB"))
	a := s.start("--eviction-hard=memory.available<100Mi,pid.available<150")
	s.knows(calm, bomb, greedy)
	refuseTasks(t, apart, a.PID)
	s.order(bomb, "fork 10000")
	s.evicts(a, bomb, "pids")
	s.await(a, agent.ReclaimDone)
	s.order(greedy, "fill 405MiB at 200MiB/s") // about 45 MiB are left: no race with exhaustion
	s.evicts(a, greedy, "memory")
	s.await(a, agent.ReclaimDone)
	s.running(calm)
}

// refuseTasks moves a process to a cgroup that has exactly as many tasks as it may have.
func refuseTasks(t *testing.T, node *sandbox.Node, pid int) {
	t.Helper()
	dir := filepath.Join(node.Dir("pids"), "full")
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write("cgroup.procs", strconv.Itoa(pid))
	write("pids.max", "1") // fewer than it has
}

// TestProviders_FindSamePod checks that every provider leads to the pod with the most
// memory above its request.
func TestProviders_FindSamePod(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Memory: 768 * mib}))
	for _, provider := range []string{"cgroup", "cri", "cadvisor"} {
		s.scenario(provider, func(s *env) {
			entitled := cluster.Hog("entitled", "fill 200MiB")
			entitled.Spec.Containers[0].Resources = cluster.Resources(220*mib, 0)
			others := []*cluster.Pod{s.add(entitled)}
			for _, name := range []string{"small-1", "small-2", "small-3"} {
				others = append(others, s.add(cluster.Hog(name, "fill 20MiB")))
			}
			greedy := s.add(cluster.Hog("greedy", "fill 60MiB"))
			a := s.start("--stats-provider=" + provider)
			s.knows(append(others, greedy)...)
			s.order(greedy, "fill 380MiB at 100MiB/s") // about 60 MiB are left: no race with exhaustion
			d := s.evicts(a, greedy, "memory")
			if len(d.Ranking) != 5 {
				s.t.Errorf("ranking: %+v", d.Ranking)
			}
			s.noOOM()
			s.only(greedy)
			s.running(others...)
		})
	}
}
