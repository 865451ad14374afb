package whole

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// agentDead checks that the kubelet evicts at its own threshold if no agent runs.
func (s *env) agentDead() {
	pods := s.pods(requesting(cluster.Hog("calm", "fill 50MiB"), 80*mib), cluster.Hog("greedy", "fill 50MiB"))
	calm, greedy := pods[0], pods[1]
	s.removeAgent()
	s.do(greedy, "fill "+s.allExcept(35*mib)+" at 500MiB/s")
	s.awaitEvicted(greedy, "memory")
	if output := s.pod(greedy).Status.Message; !strings.Contains(output, "Threshold quantity: "+backstop["allocatableMemory.available"]) {
		s.Errorf("the kubelet's line is %s: %q", backstop["allocatableMemory.available"], output)
	}
	s.reported(corev1.NodeMemoryPressure)
	s.do(calm, "fill 1MiB")
}

// elsewhere is a node selector without a matching node.
const elsewhere = `{"spec":{"template":{"spec":{"nodeSelector":{"plimsoll.test/nowhere":%s}}}}}`

// removeAgent removes the agent from the node until the scenario ends.
func (s *env) removeAgent() {
	s.Helper()
	s.Cleanup(s.restoreAgent)
	s.patchAgent(strings.Replace(elsewhere, "%s", `"true"`, 1))
	s.poll("the agent's pod is removed", func() bool {
		list, err := s.api.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
		s.must(err)
		return len(list.Items) == 0
	})
}

// restoreAgent waits until the new agent is armed. Until then, the node's status may be the
// previous agent's.
func (s *env) restoreAgent() {
	s.Helper()
	since := time.Now()
	s.patchAgent(strings.Replace(elsewhere, "%s", "null", 1))
	s.poll("the new agent is armed", func() bool {
		lease := s.lease()
		return lease.Spec.RenewTime.After(since) && lease.Annotations["plimsoll.dev/armed"] == "true"
	})
}

func (s *env) patchAgent(patch string) {
	s.Helper()
	_, err := s.api.AppsV1().DaemonSets(namespace).Patch(context.WithoutCancel(s.Context()), releaseName+"-agent", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

// kubeletSilent covers a silent kubelet beside a live agent: the node gets no new pods and
// keeps its pods, and the agent continues to protect them.
func (s *env) kubeletSilent() {
	pods := s.pods(shortTolerations(cluster.Hog("calm", "fill 50MiB")), cluster.Hog("greedy", "fill 50MiB"))
	calm, greedy := pods[0], pods[1]
	silent := time.Now()
	s.Cleanup(s.kubeletRuns)
	s.must(s.Node.Kubelet.Stop(s.Context()))
	s.until("the node is Unknown", func() bool { return s.node().Is(corev1.NodeReady) == corev1.ConditionUnknown })
	s.until("the node gets no new pods", func() bool { return s.node().Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule) != nil })
	s.order(greedy, "fill 1GiB at 200MiB/s")
	s.awaitEvicted(greedy, "memory")
	s.agentBeats(3)
	s.must(s.Node.Kubelet.Restart(s.Context()))
	s.back()
	for _, n := range s.nodeStates(silent) {
		if n.Tainted(corev1.TaintEffectNoExecute) != "" {
			s.Fatalf("NoExecute taint at %v beside a live agent: %v", n.At, n.Spec.Taints)
		}
	}
	if s.pod(calm).Leaving() {
		s.Errorf("pod %s was deleted", calm.Object.Name)
	}
	s.do(calm, "fill 1MiB")
}

// kubeletRuns starts the kubelet if a scenario stopped it.
func (s *env) kubeletRuns() {
	s.Helper()
	if !s.Node.Kubelet.Running() {
		s.must(s.Node.Kubelet.Restart(context.WithoutCancel(s.Context())))
	}
}

// agentBeats waits for a number of renewals of the agent's lease.
func (s *env) agentBeats(times int) {
	s.Helper()
	last := metav1.MicroTime{}
	for range times + 1 {
		s.poll("the agent renews its lease", func() bool {
			lease, err := s.api.CoordinationV1().Leases(namespace).Get(s.Context(), cluster.NodeName, metav1.GetOptions{})
			s.must(err)
			renewed := lease.Spec.RenewTime.After(last.Time)
			last = *lease.Spec.RenewTime
			return renewed
		})
	}
}

// back waits until the node is as before its silence.
func (s *env) back() {
	s.Helper()
	s.until("the node is ready and schedulable", func() bool {
		return s.node().Is(corev1.NodeReady) == corev1.ConditionTrue && len(s.node().Spec.Taints) == 0
	})
}

// nodeStates returns the states of the node since a time.
func (s *env) nodeStates(since time.Time) (states []*recorder.Node) {
	for _, n := range s.rec.NodeStates(cluster.NodeName) {
		if n.At.After(since) {
			states = append(states, n)
		}
	}
	return states
}

// shortTolerations limits a pod's tolerations of a lost node to one second.
func shortTolerations(pod *corev1.Pod) *corev1.Pod {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1)),
		})
	}
	return pod
}

// nodeDies covers a node without kubelet and agent. Its pods are replaced as soon as there is a
// place, and the place is the node after its return.
func (s *env) nodeDies() {
	app := s.deploy(shortTolerations(cluster.Hog("app"))) // does not wait for a lost node
	before := s.replica(app, "")
	stays := s.run(cluster.Hog("stays")) // with the default toleration of 300 s
	agent := s.agent()
	s.Cleanup(s.kubeletRuns)
	s.must(s.Node.Kubelet.Kill())
	s.strike(agent)
	s.until("the node is Unknown", func() bool { return s.node().Is(corev1.NodeReady) == corev1.ConditionUnknown })
	s.until("its pods are evicted", func() bool { return s.node().Taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) != nil })
	s.until("the pod is deleted", func() bool { return s.rec.Pod(before).Leaving() })
	after := s.replica(app, before)
	s.must(s.Node.Kubelet.Restart(s.Context()))
	s.back()
	s.until("the evicted pod is removed", func() bool { return s.rec.Pod(before).Gone })
	s.until("its successor runs", func() bool { return s.rec.Pod(after).Status.Phase == corev1.PodRunning })
	s.agent()
	s.do(stays, "fill 1MiB")
	s.must(s.api.AppsV1().Deployments(app.Namespace).Delete(s.Context(), app.Name, metav1.DeleteOptions{}))
}

// strike kills all processes of a pod.
func (s *env) strike(p *cluster.Pod) {
	s.Helper()
	pids, err := p.PIDs()
	s.must(err)
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			s.Fatalf("kill process %d of %s: %v", pid, p.Object.Name, err)
		}
	}
}

// deploy creates a Deployment of a pod, with one replica.
func (s *env) deploy(pod *corev1.Pod) *appsv1.Deployment {
	s.Helper()
	pod = s.Node.Prepare(pod)
	labels := map[string]string{"app": pod.Name}
	made, err := s.api.AppsV1().Deployments(pod.Namespace).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	s.must(err)
	return made
}

// replica waits for a pod of a Deployment other than the given one, and not in deletion. The
// first one also has to run.
func (s *env) replica(of *appsv1.Deployment, not types.UID) (found types.UID) {
	s.Helper()
	s.poll("a pod of "+of.Name, func() bool {
		list, err := s.api.CoreV1().Pods(of.Namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + of.Name})
		s.must(err)
		for _, p := range list.Items {
			if p.UID != not && p.DeletionTimestamp == nil && (not != "" || p.Status.Phase == corev1.PodRunning) {
				found = p.UID
			}
		}
		return found != ""
	})
	return found
}
