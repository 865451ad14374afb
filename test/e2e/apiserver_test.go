package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// fast is the fill of a greedy pod beside 150 MiB of pods: its rate exhausts the 100 MiB that remain at the threshold
// in half a second. About 45 MiB are left: a late agent evicts after the fill.
const fast = "fill 310MiB at 200MiB/s"

// knows waits until the agent's saved state contains the pods.
func (s *env) knows(pods ...*cluster.Pod) {
	s.t.Helper()
	for _, p := range pods {
		s.until("the saved state contains pod "+p.Object.Name, func() bool { return s.saved(p) })
	}
}

// saved reports whether the state file names a pod, as an active one or with a pending status.
func (s *env) saved(p *cluster.Pod) bool {
	s.t.Helper()
	state, err := os.ReadFile(s.state)
	return err == nil && strings.Contains(string(state), p.UID())
}

// order sends a command without waiting for its end.
func (s *env) order(p *cluster.Pod, command string) {
	s.t.Helper()
	if err := p.Order(s.t.Context(), "main", command); err != nil {
		s.t.Fatal(err)
	}
}

// evictedOffline waits for the eviction of a pod without reachable API server, which the kernel must not precede.
func (s *env) evictedOffline(a *trial.Agent, p *cluster.Pod) *agent.Decision {
	s.t.Helper()
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.UID != p.UID() || d.Decision != agent.Evicted || d.Status != agent.StatusPending {
		s.t.Fatalf("decision: %+v", d)
	}
	s.noOOM()
	return d
}

// noOOM checks that the kernel has killed no process.
func (s *env) noOOM() {
	s.t.Helper()
	if kills, err := s.Node.Sandbox.OOMKills(); err != nil || kills > 0 {
		s.t.Errorf("the OOM killer ended %d processes (%v)", kills, err)
	}
}

// checkReported checks that a pending status is reported in full, once.
func (s *env) checkReported(p *cluster.Pod, d *agent.Decision) {
	s.t.Helper()
	s.until("no status is pending", func() bool { return !s.saved(p) })
	s.checkReports(p, d.Message, "memory")
	s.only(p)
}

// checkRecorded checks that the eviction of a pod is recorded in the cluster, with its ranking.
func (s *env) checkRecorded(p *cluster.Pod) {
	s.t.Helper()
	s.until("the eviction is recorded", func() bool {
		n, found, err := store.Get(s.t.Context(), apitest.From(s.API), "plimsoll-evictions", cluster.NodeName)
		if err != nil || !found {
			return false
		}
		return slices.ContainsFunc(n.Records, func(r decisionlog.Record) bool {
			return r.UID == p.UID() && r.Choice != nil && len(r.Choice.Places) > 0
		})
	})
}

func (s *env) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAPIServer_Unreachable(t *testing.T) {
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	s.restarted = true
	for name, fault := range map[string]struct{ begins, ends func(*env) }{
		"lost packets":        {func(s *env) { s.Front.Stall() }, func(s *env) { s.must(s.Front.Pass()) }},
		"refused connections": {func(s *env) { s.Front.Refuse() }, func(s *env) { s.must(s.Front.Pass()) }},
		"paused":              {func(s *env) { s.must(s.APIServer.Pause()) }, func(s *env) { s.must(s.APIServer.Resume()) }},
		"killed":              {func(s *env) { s.must(s.APIServer.Kill()) }, (*env).restart},
	} {
		s.scenario(name, func(s *env) {
			calm, greedy := s.add(cluster.Hog("calm", "fill 50MiB")), s.add(cluster.Hog("greedy", "fill 100MiB"))
			a := s.start()
			s.knows(calm, greedy)
			fault.begins(s)
			s.order(greedy, fast)
			d := s.evictedOffline(a, greedy)
			s.await(a, agent.ReclaimDone)
			fault.ends(s)
			s.checkReported(greedy, d)
			s.checkRecorded(greedy)
			s.running(calm)
		})
	}
	s.scenario("start without API server", (*env).startsWithout)
	s.scenario("start with only the runtime", (*env).startsWithRuntime)
	s.scenario("agent killed before its report", (*env).reportedBySuccessor)
	s.scenario("agent killed before its report, restarted pod", (*env).killedAndOutrun)
}

// restart restarts the API server.
func (s *env) restart() {
	s.t.Helper()
	s.must(s.APIServer.Restart(s.t.Context()))
}

// startsWithout checks a start without API server: the pods are those of the state file.
func (s *env) startsWithout() {
	important := cluster.Hog("important", "fill 200MiB") // uses more in total, but less above its request
	important.Spec.Containers[0].Resources = cluster.Resources(300*mib, 0)
	calm, greedy := s.add(important), s.add(cluster.Hog("greedy", "fill 100MiB"))
	first := s.start()
	s.knows(calm, greedy)
	s.must(first.Stop())
	s.must(s.APIServer.Kill())
	second := s.start()
	s.order(greedy, "fill 160MiB at 200MiB/s") // about 45 MiB are left
	d := s.evictedOffline(second, greedy)
	s.restart()
	s.checkReported(greedy, d)
	s.running(calm)
}

// startsWithRuntime checks the first start, with the runtime as the only source of pods.
func (s *env) startsWithRuntime() {
	calm, greedy := s.add(cluster.Hog("calm", "fill 50MiB")), s.add(cluster.Hog("greedy", "fill 100MiB"))
	s.Front.Refuse()
	address := free(s.t)
	a := s.start("--healthz-bind-address=" + address)
	s.until("the pods are known", func() bool {
		return strings.Contains(s.page(address, "/readyz?verbose"), "[+]pods ok")
	})
	s.order(greedy, fast)
	d := s.evictedOffline(a, greedy)
	s.must(s.Front.Pass())
	s.checkReported(greedy, d)
	s.running(calm)
}

// reportedBySuccessor checks that the successor of a killed agent reports the pending status.
func (s *env) reportedBySuccessor() {
	greedy, d := s.killedAgent()
	successor := s.start()
	s.must(s.Front.Pass())
	s.checkReported(greedy, d)
	s.quiet(successor)
}

// killedAndOutrun checks that only the event is reported for a pod that runs again.
func (s *env) killedAndOutrun() {
	greedy, d := s.killedAgent()
	s.until("the runtime reports the end of the pod's container", func() bool { return s.ended(greedy) })
	// The agent's own request to stop the sandbox may be under way still: no container could be created in it.
	_, err := s.Node.Runtime.StopPodSandbox(s.t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: greedy.Sandbox})
	s.must(err)
	s.must(greedy.Restart(s.t.Context(), "main"))
	successor := s.start()
	s.must(s.Front.Pass())
	if events := s.events(greedy, "Evicted"); len(events) != 1 || !explains(events[0].Message, d.Message) {
		s.t.Errorf("events: %+v", events)
	}
	s.running(greedy)
	s.quiet(successor)
}

// killedAgent makes an agent evict a pod, and kills the agent before it can report to the API server.
func (s *env) killedAgent() (*cluster.Pod, *agent.Decision) {
	s.t.Helper()
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	a := s.start()
	s.knows(greedy)
	s.Front.Stall()
	s.order(greedy, "fill 360MiB at 200MiB/s") // about 45 MiB are left
	d := s.evictedOffline(a, greedy)
	// The decision does not wait for slow exits, and an interrupted kill forbids forks until a successor starts.
	s.until("the kill has ended", func() bool {
		forbidden, err := greedy.ForksForbidden()
		s.must(err)
		return !forbidden
	})
	s.must(a.Kill())
	return greedy, d
}

// ended reports whether no container of the pod runs, according to the runtime. The sandbox may
// still run if the agent was killed before it could stop it.
func (s *env) ended(p *cluster.Pod) bool {
	s.t.Helper()
	return !slices.ContainsFunc(s.containersOf([]*cluster.Pod{p}), func(c *runtimeapi.Container) bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING })
}

// quiet stops an agent and checks that it has not evicted any pod.
func (s *env) quiet(a *trial.Agent) {
	s.t.Helper()
	s.must(a.Stop())
	for d := range a.Decisions {
		if d.Decision == agent.Evicted || d.Decision == agent.Failed || d.Decision == agent.SoftEvicting {
			s.t.Errorf("decision: %+v", d)
		}
	}
}
