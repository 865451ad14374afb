package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

func TestEvict_NotWhileBlocked(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	s.scenario("dry run", (*env).dryRun)
	s.scenario("node shutdown", (*env).shutsDown)
	s.scenario("pod in deletion", (*env).beingDeleted)
	s.scenario("end of the agent", (*env).endsAtOnce)
}

// endsAtOnce checks that the agent does not wait for a server without answers.
func (s *env) endsAtOnce() {
	for name, fault := range map[string]struct{ begins, ends func() error }{
		"stalled API server":          {func() error { s.Front.Stall(); return nil }, s.Front.Pass},
		"paused runtime":              {s.Node.Containerd.Pause, s.Node.Containerd.Resume},
		"refused runtime connections": {func() error { s.Node.Link.Refuse(); return nil }, s.Node.Link.Pass},
	} {
		s.scenario(name, func(s *env) {
			calm := s.add(cluster.Hog("calm", "fill 50MiB"))
			a := s.start("--stats-provider=cri", "--container-runtime-endpoint=unix://"+s.Node.Link.Address())
			s.knows(calm)
			s.must(fault.begins())
			s.t.Cleanup(func() {
				if err := fault.ends(); err != nil {
					s.t.Error(err)
				}
			})
			s.must(a.Stop()) // the fault lasts longer than Stop waits
		})
	}
}

// dryRun checks that nothing but the dry run is reported.
func (s *env) dryRun() {
	s.forget()
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	before := greedy.Object.ResourceVersion
	a := s.start("--dry-run")
	s.knows(greedy)
	s.must(greedy.Do(s.t.Context(), "fill 330MiB at 300MiB/s"))
	if d := s.await(a, agent.WouldEvict, agent.Evicted, agent.Failed); d.Decision != agent.WouldEvict || d.UID != greedy.UID() {
		s.t.Errorf("decision: %+v", d)
	}
	s.until("the heartbeat reports it", func() bool {
		lease, err := s.API.CoordinationV1().Leases("plimsoll-system").Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
		return err == nil && lease.Annotations["plimsoll.dev/dry-run"] == "true"
	})
	s.running(greedy)
	s.quiet(a)
	if got := s.get(greedy); got.ResourceVersion != before {
		s.t.Errorf("the pod was changed: %+v", got.Status)
	}
	if c := s.condition(corev1.NodeMemoryPressure); c != nil {
		s.t.Errorf("got condition %+v", c)
	}
}

// shut sets the Node's condition for a shutdown, as its kubelet would.
func (s *env) shut(message string) {
	s.t.Helper()
	now := metav1.Now().UTC().Format(time.RFC3339)
	_, err := s.API.CoreV1().Nodes().Patch(s.t.Context(), cluster.NodeName, types.StrategicMergePatchType, []byte(
		`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"`+message+`","lastHeartbeatTime":"`+now+`","lastTransitionTime":"`+now+`"}]}}`),
		metav1.PatchOptions{}, "status")
	s.must(err)
}

// shutsDown checks a shutdown: pods then end in the kubelet's order.
func (s *env) shutsDown() {
	address := free(s.t)
	greedy := s.add(cluster.Hog("greedy", "fill 100MiB"))
	s.shut("node is shutting down")
	a := s.start("--healthz-bind-address=" + address)
	s.knows(greedy)
	s.must(greedy.Do(s.t.Context(), "fill 330MiB at 300MiB/s"))
	s.until("the agent reports the pressure", func() bool {
		return s.metric(address, `plimsoll_condition{condition="MemoryPressure"}`) == 1
	})
	s.running(greedy)
	s.shut("was a mistake")
	s.evicts(a, greedy, "memory")
}

// TestEvict_ForDiskWhileRuntimeHangs checks that usage of volumes is measured without the runtime.
func TestEvict_ForDiskWhileRuntimeHangs(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 450 * mib}}))
	s.scenario("paused runtime", func(s *env) {
		calm, greedy := s.add(writer("calm")), s.add(writer("greedy"))
		s.write(inEmptyDir(s, calm), 20*mib)
		a := s.start(disky, "--runtime-request-timeout=1s")
		s.knows(calm, greedy)
		s.must(s.Node.Containerd.Pause())
		s.t.Cleanup(func() {
			if err := s.Node.Containerd.Resume(); err != nil {
				s.t.Error(err)
			}
		})
		s.write(inEmptyDir(s, greedy), 270*mib)
		s.evicts(a, greedy, "ephemeral-storage")
		s.only(greedy)
		s.running(calm)
	})
	s.scenario("restarted runtime", func(s *env) {
		calm, greedy := s.add(writer("calm")), s.add(writer("greedy"))
		a := s.start(disky)
		s.knows(calm, greedy)
		s.must(s.Node.Containerd.Kill())
		s.must(s.Node.Containerd.Restart(s.t.Context()))
		s.write(inLayer(s, greedy), 270*mib)
		s.evicts(a, greedy, "ephemeral-storage")
		if d := s.await(a, agent.ReclaimDone); d.Reason != "recovered" {
			s.t.Errorf("decision: %+v", d)
		}
		s.only(greedy)
		s.running(calm)
	})
}

// beingDeleted covers a pod in deletion: it is killed at once if there is no time to wait for
// it, and no other pod is evicted.
func (s *env) beingDeleted() {
	leaving := cluster.Hog("leaving", "fill 150MiB")
	leaving.Spec.TerminationGracePeriodSeconds = new(int64(600))
	going, greedy := s.add(leaving), s.add(cluster.Hog("greedy", "fill 160MiB"))
	s.must(s.API.CoreV1().Pods("default").Delete(s.t.Context(), "leaving", metav1.DeleteOptions{}))
	a := s.start()
	s.knows(going, greedy)
	s.order(greedy, "fill 155MiB at 200MiB/s") // about 40 MiB are left: no race with exhaustion
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.UID != going.UID() || !toldInTime(d) {
		s.t.Errorf("decision: %+v", d)
	}
	s.noOOM()
	s.only(going)
	s.running(greedy)
}
