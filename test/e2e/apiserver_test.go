package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// fast is the rate of a greedy pod in these tests: it exhausts the 100 MiB that remain at the
// threshold in half a second.
const fast = "fill 1GiB at 200MiB/s"

// knows waits until the agent knows pods, according to its saved state.
func (s *stage) knows(pods ...*cluster.Pod) {
	s.t.Helper()
	for _, p := range pods {
		s.until("the agent knows pod "+p.Object.Name, func() bool { return s.saved(p) })
	}
}

// saved reports whether the state file names a pod, as an active one or with a pending status.
func (s *stage) saved(p *cluster.Pod) bool {
	s.t.Helper()
	state, err := os.ReadFile(s.state)
	return err == nil && strings.Contains(string(state), p.UID())
}

// order sends a command without waiting for its end.
func (s *stage) order(p *cluster.Pod, command string) {
	s.t.Helper()
	if err := p.Order(s.t.Context(), "main", command); err != nil {
		s.t.Fatal(err)
	}
}

// owed waits for the eviction of a pod without reachable API server. All processes of the pod
// must have received SIGKILL before memory is exhausted.
func (s *stage) owed(a *trial.Agent, p *cluster.Pod) *agent.Decision {
	s.t.Helper()
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.UID != p.UID() || d.Decision != agent.Evicted || d.Status != agent.StatusPending {
		s.t.Fatalf("decision: %+v", d)
	}
	if d.TimeToExhaustion != nil && *d.KillTime > *d.TimeToExhaustion {
		s.t.Errorf("killed after %v ms, memory was exhausted after %v", *d.KillTime, *d.TimeToExhaustion)
	}
	s.noOOM()
	return d
}

// noOOM checks that the kernel has killed no process.
func (s *stage) noOOM() {
	s.t.Helper()
	if kills, err := s.Node.Sandbox.OOMKills(); err != nil || kills > 0 {
		s.t.Errorf("the OOM killer ended %d processes (%v)", kills, err)
	}
}

// paid checks that a pending status is reported in full, once.
func (s *stage) paid(p *cluster.Pod, d *agent.Decision) {
	s.t.Helper()
	s.until("all debts are paid", func() bool { return !s.saved(p) })
	s.told(p, d.Message, "memory")
	s.only(p)
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAnAPIServerThatIsAway(t *testing.T) {
	s := set(t, withoutKubelet(cluster.NodeOptions{}))
	s.restarted = true
	for name, fault := range map[string]struct{ begins, ends func(*stage) }{
		"packets are lost": {func(s *stage) { s.Front.Stall() }, func(s *stage) { s.must(s.Front.Pass()) }},
		"refuses":          {func(s *stage) { s.Front.Refuse() }, func(s *stage) { s.must(s.Front.Pass()) }},
		"hangs":            {func(s *stage) { s.must(s.APIServer.Pause()) }, func(s *stage) { s.must(s.APIServer.Resume()) }},
		"is gone":          {func(s *stage) { s.must(s.APIServer.Kill()) }, (*stage).restart},
	} {
		s.story(name, func(s *stage) {
			calm, greedy := s.add(cluster.Hog("calm", "fill 50MiB")), s.add(cluster.Hog("greedy", "fill 100MiB"))
			a := s.start()
			s.knows(calm, greedy)
			fault.begins(s)
			s.order(greedy, fast)
			d := s.owed(a, greedy)
			s.await(a, agent.ReclaimDone)
			fault.ends(s)
			s.paid(greedy, d)
			s.running(calm)
		})
	}
	s.story("the agent starts without", (*stage).startsWithout)
	s.story("the agent knows nothing but the runtime", (*stage).knowsOnlyRuntime)
	s.story("the agent is killed before it has told", (*stage).killedAndFollowed)
	s.story("the agent is killed before it has told, the pod runs again", (*stage).killedAndOutrun)
}

// restart restarts the API server.
func (s *stage) restart() {
	s.t.Helper()
	s.must(s.APIServer.Restart(s.t.Context()))
}

// startsWithout checks a start without API server: the pods are those of the state file.
func (s *stage) startsWithout() {
	important := cluster.Hog("important", "fill 200MiB") // uses more in total, but less above its request
	important.Spec.Containers[0].Resources = cluster.Ask(300*mib, 0)
	calm, greedy := s.add(important), s.add(cluster.Hog("greedy", "fill 100MiB"))
	first := s.start()
	s.knows(calm, greedy)
	s.must(first.Stop())
	s.must(s.APIServer.Kill())
	second := s.start()
	s.order(greedy, fast)
	d := s.owed(second, greedy)
	s.restart()
	s.paid(greedy, d)
	s.running(calm)
}

// knowsOnlyRuntime checks the first start ever, with the runtime as the only source of pods.
func (s *stage) knowsOnlyRuntime() {
	calm, greedy := s.add(cluster.Hog("calm", "fill 50MiB")), s.add(cluster.Hog("greedy", "fill 100MiB"))
	s.Front.Refuse()
	a := s.start()
	s.order(greedy, fast)
	d := s.owed(a, greedy)
	s.must(s.Front.Pass())
	s.paid(greedy, d)
	s.running(calm)
}

// killedAndFollowed checks that the successor of a killed agent reports the pending status.
func (s *stage) killedAndFollowed() {
	greedy, d := s.killedAgent()
	successor := s.start()
	s.must(s.Front.Pass())
	s.paid(greedy, d)
	s.quiet(successor)
}

// killedAndOutrun checks that only the event is reported for a pod that runs again.
func (s *stage) killedAndOutrun() {
	greedy, d := s.killedAgent()
	s.until("the runtime knows that the pod's container has ended", func() bool { return s.ended(greedy) })
	s.must(greedy.StartAgain(s.t.Context(), "main"))
	successor := s.start()
	s.must(s.Front.Pass())
	if events := s.events(greedy, "Evicted"); len(events) != 1 || events[0].Message != d.Message {
		s.t.Errorf("events: %+v", events)
	}
	s.running(greedy)
	s.quiet(successor)
}

// killedAgent makes an agent evict a pod, and kills it before it can report to the API server.
func (s *stage) killedAgent() (*cluster.Pod, *agent.Decision) {
	s.t.Helper()
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	a := s.start()
	s.knows(greedy)
	s.Front.Stall()
	s.order(greedy, fast)
	d := s.owed(a, greedy)
	s.must(a.Kill())
	return greedy, d
}

// ended reports whether the runtime knows that no container of the pod runs. The sandbox may
// still run if the agent was killed before it could stop it.
func (s *stage) ended(p *cluster.Pod) bool {
	s.t.Helper()
	return !slices.ContainsFunc(s.containersOf([]*cluster.Pod{p}), func(c *runtimeapi.Container) bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING })
}

// quiet stops an agent and checks that it has not evicted any pod.
func (s *stage) quiet(a *trial.Agent) {
	s.t.Helper()
	s.must(a.Stop())
	for d := range a.Decisions {
		if d.Decision == agent.Evicted || d.Decision == agent.Failed || d.Decision == agent.SoftEvicting {
			s.t.Errorf("decision: %+v", d)
		}
	}
}
