package whole

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// A problem is planted on an armed node and shows its symptom.
type problem struct {
	config  map[string]any    // of the agent
	kubelet map[string]string // thresholds of the kubelet instead of the backstop's, before the agent is armed
	plant   func(*env)
}

// problems of an operator, by name (`make trial-oncall`).
var problems = map[string]problem{
	"disarmed": {plant: func(s *env) {
		if output, err := s.plimsoll("disarm", cluster.NodeName); err != nil {
			s.Fatalf("plimsoll disarm: %v\n%s", err, output)
		}
		s.grows()
	}},
	"rights": {plant: func(s *env) {
		// Without pods/status an evicted pod has no reason.
		role, err := s.api.RbacV1().ClusterRoles().Get(s.Context(), "plimsoll-agent", metav1.GetOptions{})
		s.must(err)
		all := len(role.Rules)
		role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "pods/status") })
		if len(role.Rules) == all {
			s.Fatal("the agent has no right to pods/status that could be taken away")
		}
		_, err = s.api.RbacV1().ClusterRoles().Update(s.Context(), role, metav1.UpdateOptions{})
		s.must(err)
		s.grows()
	}},
	"host-path": {plant: func(s *env) {
		host := filepath.Join(filepath.Dir(s.Node.KubeletRoot), "exports")
		s.must(os.MkdirAll(host, 0o755))
		pod := cluster.Hog("exporter")
		pod.Spec.Volumes = []corev1.Volume{{Name: "exports", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: host}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "exports", MountPath: "/exports"}}
		s.run(pod)
		s.fillUntil(100*mib, host)
	}},
	"threshold": {
		config:  map[string]any{"evictionHard": map[string]any{"allocatableMemory.available": "1Mi"}},
		kubelet: map[string]string{"allocatableMemory.available": "0%"},                   // 60Mi would keep the agent disarmed
		plant:   func(s *env) { s.deploy(cluster.Hog("leaky", "fill 1GiB at 500MiB/s")) }, // 1Mi protects up to 18 MiB/s
	},
	"kubelet": {plant: func(s *env) {
		higher := maps.Clone(backstop)
		higher["allocatableMemory.available"] = "300Mi"
		s.must(s.Node.Reconfigure(s.Context(), map[string]any{"evictionHard": higher}))
		s.back()
		s.grows()
	}},
	"absent": {plant: func(s *env) {
		s.removeAgent()
		s.grows()
	}},
}

// TestNode_HasProblem plants PROBLEM on a node and leaves it to a person, with the client as
// kubectl-plimsoll and the file kubeconfig in DIR, until DIR has a file named done.
func TestNode_HasProblem(t *testing.T) {
	name, dir := os.Getenv("PROBLEM"), os.Getenv("DIR")
	planted, known := problems[name]
	if !known || dir == "" {
		t.Fatalf("PROBLEM=%s, DIR=%s: use make trial-oncall with PROBLEM, one of %v, and DIR, a directory for the client", name, dir, slices.Sorted(maps.Keys(problems)))
	}
	s := newEnv(t, nil)
	s.buildImage()
	s.buildClient()
	s.install(agentConfig(planted.config))
	s.must(s.others.Clear(s.Context())) // a node without an agent would be a second problem
	s.idleCritical()
	if planted.kubelet != nil {
		thresholds := maps.Clone(backstop)
		maps.Copy(thresholds, planted.kubelet)
		s.must(s.Node.Reconfigure(s.Context(), map[string]any{"evictionHard": thresholds}))
	}
	s.arm()
	s.began = time.Now()
	s.pods(requesting(cluster.Hog("web", "fill 100MiB"), 120*mib), requesting(cluster.Hog("db", "fill 150MiB"), 180*mib))
	planted.plant(s)
	s.must(os.MkdirAll(dir, 0o755))
	s.must(os.RemoveAll(filepath.Join(dir, "done"))) // of an earlier trial
	for file, of := range map[string]string{"kubectl-plimsoll": s.release.client, "kubeconfig": s.release.kubeconfig} {
		text, err := os.ReadFile(of)
		s.must(err)
		s.must(os.WriteFile(filepath.Join(dir, file), text, 0o700))
	}
	t.Logf("the problem is planted: KUBECONFIG=%s", filepath.Join(dir, "kubeconfig"))
	cluster.Poll(s, 2*time.Hour, "the file done", func() bool {
		_, err := os.Stat(filepath.Join(dir, "done"))
		return err == nil
	})
}

// grows deploys a pod without a request. Its memory grows.
func (s *env) grows() { s.deploy(cluster.Hog("leaky", "fill 1GiB at 20MiB/s")) }
