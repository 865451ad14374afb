package whole

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// ballast is a critical pod, exempt from eviction, so that pressure lasts as long as it keeps
// its memory.
func (s *env) ballast() *cluster.Pod {
	s.Helper()
	return s.run(of("system-node-critical", cluster.Hog("ballast", "fill 50MiB")))
}

// updatedUnderPressure checks that a new agent continues with the previous one's pressure. The
// condition stays unchanged, and ends when memory is available again.
func (s *env) updatedUnderPressure() {
	ballast := s.ballast()
	s.do(ballast, "fill "+s.allExcept(100*mib)+" at 500MiB/s")
	s.reported(memoryPressure)
	before, since := s.agent(), s.node().Condition(memoryPressure).LastTransitionTime
	began := time.Now()
	s.upgrade(map[string]any{"podAnnotations": map[string]any{"plimsoll.test/round": fmt.Sprint(began.Unix())}})
	after := s.agent()
	if before.Object.UID == after.Object.UID {
		s.Errorf("the agent is still %s", before.Object.Name)
	}
	s.agentBeats(1)
	for _, n := range s.nodeStates(began) {
		if c := n.Condition(memoryPressure); c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&since) {
			s.Fatalf("at %v: %s since %v, before: True since %v", n.At, c.Status, c.LastTransitionTime, since)
		}
	}
	s.do(ballast, "release")
}

// kubeletReports covers a kubelet with the agent's threshold as a soft one of infinite grace.
// It reports and never evicts: the standard condition, the controller's taint for it, and the
// scheduler follow.
func (s *env) kubeletReports() {
	soft := map[string]any{
		"evictionSoft":                     map[string]string{"allocatableMemory.available": "150Mi"},
		"evictionSoftGracePeriod":          map[string]string{"allocatableMemory.available": "8760h"},
		"evictionPressureTransitionPeriod": "5s",
	}
	usual := maps.Clone(soft)
	for field := range usual {
		usual[field] = nil
	}
	s.Cleanup(func() { s.must(s.Node.Reconfigure(context.WithoutCancel(s.Context()), usual)) })
	s.must(s.Node.Reconfigure(s.Context(), soft))
	s.back()
	ballast := s.ballast()
	s.do(ballast, "fill "+s.allExcept(100*mib)+" at 500MiB/s")
	s.reported(corev1.NodeMemoryPressure)
	s.until("the taint follows", func() bool {
		return s.node().Taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule) != nil
	})
	refused := s.Node.Prepare(cluster.Hog("refused"))
	refused, err := s.api.CoreV1().Pods(refused.Namespace).Create(s.Context(), refused, metav1.CreateOptions{})
	s.must(err)
	s.until("the scheduler finds no place for a best-effort pod", func() bool {
		c := s.rec.Pod(refused.UID).Condition(corev1.PodScheduled)
		return c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, "untolerated taint")
	})
	s.do(ballast, "release")
	s.relieved()
	s.until("it finds one now", func() bool { return s.rec.Pod(refused.UID).Status.Phase == corev1.PodRunning })
	*s.cast = append(*s.cast, s.Node.Pod(refused))
	if states := s.nodeStates(s.began); states[len(states)-1].Is(memoryPressure) == corev1.ConditionTrue {
		s.Errorf("%s is written, too", memoryPressure)
	}
}

// uninstalled checks that an uninstallation under pressure leaves nothing: no condition,
// no taint, no file on the node, no right in the cluster. The eviction before it can be explained nevertheless.
func (s *env) uninstalled() {
	explained := s.evictedForMemory()
	ballast := s.ballast()
	s.do(ballast, "fill "+s.allExcept(100*mib)+" at 500MiB/s")
	s.reported(memoryPressure)
	s.helm("uninstall", releaseName)
	s.until("all conditions of Plimsoll are removed", func() bool {
		for _, c := range s.node().Status.Conditions {
			if strings.HasPrefix(string(c.Type), "plimsoll.dev/") {
				return false
			}
		}
		return len(s.node().Spec.Taints) == 0
	})
	s.do(ballast, "release")
	s.poll("all pods of Plimsoll are removed", func() bool {
		list, err := s.api.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
		s.must(err)
		return len(list.Items) == 0
	})
	if left, err := s.Node.Enter(exec.Command("find", "/run/plimsoll", "-type", "f")).CombinedOutput(); err != nil || len(left) > 0 {
		s.Errorf("files were not removed: %s %v", left, err)
	}
	for _, kinds := range []string{"clusterroles,clusterrolebindings,validatingadmissionpolicies,mutatingadmissionpolicies", "roles,rolebindings,configmaps,daemonsets,deployments,jobs"} {
		if left := s.show("get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/instance="+releaseName, "--output=name"); left != "" {
			s.Errorf("objects after the uninstall:\n%s", left)
		}
	}
	_, err := s.api.CoreV1().ServiceAccounts(namespace).Get(s.Context(), "plimsoll-agent", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.Errorf("the agent's account was not removed: %v", err)
	}
	s.explainsLater(explained)
}

// evictedForMemory runs a pod that is evicted beside one within its request. Both are removed.
func (s *env) evictedForMemory() *cluster.Pod {
	s.Helper()
	pods := s.pods(requesting(cluster.Hog("modest", "fill 100MiB"), 120*mib), cluster.Hog("explained", "fill 100MiB"))
	s.order(pods[1], "fill "+s.allExcept(100*mib)+" at 200MiB/s")
	s.awaitEvicted(pods[1], "memory")
	s.do(pods[0], "fill 1MiB")
	s.relieved()
	s.checkOthersRun()
	s.dismiss()
	*s.cast = nil
	return pods[1]
}

// explainsLater checks that the client explains an eviction when the pod, its events and the agent are gone.
func (s *env) explainsLater(evicted *cluster.Pod) {
	s.Helper()
	pod := evicted.Object
	if _, err := s.api.CoreV1().Pods(pod.Namespace).Get(s.Context(), pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("the pod is not gone: %v", err)
	}
	s.must(s.api.CoreV1().Events(pod.Namespace).DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)}))
	began := time.Now()
	output, err := s.client("why", "pod", pod.Namespace+"/"+pod.Name)
	s.Logf("kubectl plimsoll why pod %s/%s\n%s", pod.Namespace, pod.Name, output)
	s.Logf("the answer took %s", time.Since(began).Round(time.Millisecond))
	for _, want := range []string{"was evicted from node " + cluster.NodeName + ".", "UID:      " + string(pod.UID), "allocatableMemory.available<", "\n*    1  " + pod.Namespace + "/" + pod.Name + " ", "would have saved it"} {
		if err != nil || !strings.Contains(output, want) {
			s.Errorf("%q is missing, error %v", want, err)
		}
	}
}
