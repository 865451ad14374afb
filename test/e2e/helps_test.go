package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// smallPods is the number of pods without a request that hold next to nothing.
const smallPods = 15

// TestEvict_SparesPodsBesideHostPathWriter re-enacts kubernetes/kubernetes#127548: a pod fills the
// node's disk by a hostPath, beside fifteen small pods. None of them goes. The kubelet's choice evicts
// one after the other.
func TestEvict_SparesPodsBesideHostPathWriter(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{Filesystem: cluster.Filesystem{Size: 1500 * mib}}))
	s.scenario("helps", (*env).sparesSmallPods)
	s.scenario("kubelet", (*env).evictsSmallPods)
	s.scenario("dead container", (*env).evictsForDeadLayer)
}

// smallOnes runs small pods with 100 KiB each in their layer.
func (s *env) smallOnes() {
	s.t.Helper()
	for i := range smallPods {
		s.write(inLayer(s, s.add(cluster.Hog(fmt.Sprintf("small-%02d", i)))), 100<<10)
	}
}

// fillsHostPath runs the pods of the incident and the agent, and fills the disk.
func (s *env) fillsHostPath(args ...string) (a *trial.Agent, host string, bytes int64) {
	s.t.Helper()
	host = filepath.Join(filepath.Dir(s.Node.KubeletRoot), "host")
	s.must(os.MkdirAll(host, 0o755))
	s.smallOnes()
	hostile := cluster.Hog("writer")
	hostile.Spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}}}
	hostile.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}
	pod := s.add(hostile)
	a = s.start(append([]string{disky}, args...)...)
	s.knows(pod)
	return a, host, s.fillUntil(80*mib, host)
}

func (s *env) sparesSmallPods() {
	address := free(s.t)
	a, host, bytes := s.fillsHostPath("--healthz-bind-address=" + address)
	d := s.await(a, agent.NoneHelps, agent.Evicted, agent.Failed)
	if d.Decision != agent.NoneHelps || d.Spared != smallPods+1 {
		s.t.Fatalf("decision: %+v", d)
	}
	// Each directory has 1 s. One that was late is reported as not measured, and the same agent repeats the line after
	// 10 min only: another one measures anew.
	late := func(what string) bool {
		return strings.Contains(what, host) || strings.Contains(what, "has not answered yet")
	}
	for d = s.measured(a); slices.ContainsFunc(d.Unmeasured, late); d = s.measured(a) {
		s.t.Logf("not measured: %v", d.Unmeasured)
		s.quiet(a)
		a = s.start(disky, "--healthz-bind-address="+address)
	}
	// The threshold is met by the last 70 MiB of the file, which may be measured before its end. Logs are written too.
	if c := d.Consumers; len(c) == 0 || c[0].Name != host || c[0].Pod != "default/writer" || int64(c[0].Amount) < bytes-80*mib {
		s.t.Errorf("consumers: %+v, not measured: %v", c, d.Unmeasured)
	}
	s.t.Logf("%s: %+v", d.Reason, d.Consumers)
	checks := func() float64 { return s.metric(address, `plimsoll_check_duration_seconds_count{check="periodic"`) }
	first := checks()
	s.until("ten further checks", func() bool { return checks() >= first+10 })
	s.quiet(a)
	s.only()
	s.vacate(host)
}

// measured waits for the decision that no pod helps, with what fills the disk.
func (s *env) measured(a *trial.Agent) *agent.Decision {
	s.t.Helper()
	for {
		if d := s.await(a, agent.NoneHelps, agent.Evicted, agent.Failed); d.Decision != agent.NoneHelps || d.Repeated == agent.RepeatMeasured {
			return d
		}
	}
}

func (s *env) evictsSmallPods() {
	a, host, _ := s.fillsHostPath("--eviction-choice=kubelet")
	for n := range smallPods {
		if d := s.await(a, agent.Evicted, agent.Failed); d.Decision != agent.Evicted || !strings.HasPrefix(d.Pod, "default/small-") {
			s.t.Fatalf("decision %d: %+v", n, d)
		}
	}
	s.t.Logf("%d of %d small pods were evicted", smallPods, smallPods)
	s.vacate(host)
}

// evictsForDeadLayer runs a pod with a container that was started again. The layer of its dead container
// fills the disk: garbage collection leaves the last dead container of a running pod.
func (s *env) evictsForDeadLayer() {
	s.smallOnes()
	loop := s.add(cluster.Hog("loop"))
	s.t.Logf("%d MiB in the layer of the dead container", s.fillUntil(80*mib, inLayer(s, loop))/mib)
	s.order(loop, "exit 1")
	s.until("the container has ended", func() bool { return s.ended(loop) })
	s.must(loop.Restart(s.t.Context(), "main"))
	a := s.startUnderPressure([]*cluster.Pod{loop}, disky)
	s.evicts(a, loop, "ephemeral-storage")
	if d := s.await(a, agent.ReclaimDone); d.Reason != "recovered" {
		s.t.Errorf("decision: %+v", d)
	}
	s.only(loop)
}
