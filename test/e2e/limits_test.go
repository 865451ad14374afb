package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// limited is a writer with a limit of ephemeral storage for its container.
func limited(name string, bytes string) *corev1.Pod {
	pod := writer(name)
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(bytes)}
	return pod
}

func TestEvict_ForLocalStorageLimits(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}))
	for _, tc := range []struct {
		name, message string
		pod           func() *corev1.Pod
		place         func(*env, *cluster.Pod) string
	}{
		{"emptyDir", `Usage of EmptyDir volume "data" exceeds the limit "20Mi". `, func() *corev1.Pod {
			pod := writer("greedy")
			pod.Spec.Volumes[0].EmptyDir.SizeLimit = new(resource.MustParse("20Mi"))
			return pod
		}, inEmptyDir},
		{"pod", "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. ",
			func() *corev1.Pod { return limited("greedy", "20Mi") }, inLayer},
		{"container", `Container main exceeded its local ephemeral storage limit "20Mi". `, func() *corev1.Pod {
			pod := limited("greedy", "20Mi")
			other := cluster.HogContainer("other")
			other.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
			pod.Spec.Containers = append(pod.Spec.Containers, other)
			return pod
		}, inLogs},
	} {
		s.scenario(tc.name, func(s *env) {
			calm, greedy := s.add(limited("calm", "200Mi")), s.add(tc.pod())
			a := s.start("--volume-stats-agg-period=1s")
			s.knows(calm, greedy)
			s.write(tc.place(s, calm), 30*mib)
			s.write(tc.place(s, greedy), 30*mib)
			d := s.await(a, agent.Evicted, agent.Failed)
			if d.UID != greedy.UID() || d.Message != tc.message || !toldInTime(d) {
				s.t.Fatalf("decision: %+v", d)
			}
			s.overLimit(greedy, d.Message)
			s.only(greedy)
			s.running(calm)
		})
	}
}

// overLimit checks the report about a pod above a limit of its own. It has no claim to a
// replacement, so there is no DisruptionTarget.
func (s *env) overLimit(p *cluster.Pod, message string) {
	s.t.Helper()
	if events := s.events(p, "Evicted"); len(events) != 1 || !explains(events[0].Message, message) {
		s.t.Errorf("events: %+v", events)
	}
	got := s.get(p).Status
	if got.Phase != corev1.PodFailed || got.Reason != "Evicted" || got.Message != message {
		s.t.Errorf("phase %s, reason %q, message %q", got.Phase, got.Reason, got.Message)
	}
	marked := false
	for _, c := range got.Conditions {
		marked = marked || c.Type == podstatus.Evicted && c.Status == corev1.ConditionTrue
		if c.Type == corev1.DisruptionTarget {
			s.t.Errorf("condition %+v", c)
		}
	}
	if !marked {
		s.t.Errorf("no condition %s: %+v", podstatus.Evicted, got.Conditions)
	}
}
