package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// A kubelet's memory is the machine's. The memory of its pods together can be configured; agent
// and kubelet watch it here.
const (
	podsMemory = 700 * mib
	line       = "150Mi" // the agent's
	backstop   = "60Mi"  // the kubelet's
)

// besideKubelet is a node with a kubelet that evicts below the backstop. It also has the given
// soft thresholds, which never evict.
func besideKubelet(t *testing.T, soft map[string]string) cluster.Options {
	t.Helper()
	graces := map[string]string{}
	for s := range soft {
		graces[s] = "8760h"
	}
	o := withKubelet(map[string]any{
		"kubeReserved":            map[string]string{"memory": fmt.Sprint(machineMemory(t) - podsMemory)},
		"evictionHard":            map[string]string{"allocatableMemory.available": backstop, "memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
		"evictionSoft":            soft,
		"evictionSoftGracePeriod": graces,
	})
	o.Node.Memory = 1024 * mib
	return o
}

func machineMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// ballast is a pod exempt from eviction.
func ballast(script string) *corev1.Pod {
	pod := cluster.Hog("ballast", script)
	pod.Spec.PriorityClassName = "system-node-critical"
	return pod
}

// status returns the status of the Node's condition; Unknown without the condition.
func (s *env) status(kind corev1.NodeConditionType) corev1.ConditionStatus {
	s.t.Helper()
	n, err := s.API.CoreV1().Nodes().Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// steady watches the node for a minute, in which no condition of pressure may change. It
// returns the number of writes to the Node.
func (s *env) steady() (writes int) {
	s.t.Helper()
	watch, err := s.API.CoreV1().Nodes().Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + cluster.NodeName})
	if err != nil {
		s.t.Fatal(err)
	}
	defer watch.Stop()
	first := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for end := time.After(time.Minute); ; {
		select {
		case <-end:
			return writes - 1 // without the initial Node
		case e := <-watch.ResultChan():
			n, is := e.Object.(*corev1.Node)
			if !is {
				s.t.Fatalf("error of the watch: %v", e)
			}
			writes++
			for _, c := range n.Status.Conditions {
				before, known := first[c.Type]
				if first[c.Type] = c; known && strings.Contains(string(c.Type), "Pressure") && (before.Status != c.Status || before.LastTransitionTime != c.LastTransitionTime) {
					s.t.Errorf("%s: %s since %s, then %s since %s", c.Type, before.Status, before.LastTransitionTime, c.Status, c.LastTransitionTime)
				}
			}
		}
	}
}

// underPressure covers both situations: memory pressure lasts, the agent evicts and the kubelet
// does not. The reported condition lasts until memory is available again.
func underPressure(t *testing.T, s *env, written, unwritten corev1.NodeConditionType) (a *trial.Agent) {
	a = s.start("--eviction-hard=allocatableMemory.available<" + line)
	heavy := s.add(ballast("fill 450MiB"))
	greedy := s.add(always("greedy"))
	s.knows(heavy, greedy)
	if err := heavy.Do(t.Context(), "fill 120MiB at 200MiB/s"); err != nil {
		t.Fatal(err)
	}
	if d := s.await(a, agent.Evicted, agent.Failed); d.Pod != "default/greedy" {
		t.Errorf("decision: %+v", d)
	}
	s.until(string(written)+" is True", func() bool { return s.status(written) == corev1.ConditionTrue })
	standard := written == standardMemory
	s.until("the scheduler's taint is there if the condition is the standard one", func() bool { return s.tainted() == standard })
	t.Logf("kubectl describe node:\n%s", s.described())
	t.Logf("%d writes to the Node in a minute", s.steady())
	if s.tainted() != standard {
		t.Errorf("after a minute of %s: got taint %t", written, !standard)
	}
	if got := s.status(unwritten); got == corev1.ConditionTrue {
		t.Errorf("%s is %s, too", unwritten, got)
	}
	if got := s.get(greedy); got.Status.Reason != "Evicted" || strings.Contains(got.Status.Message, backstop) {
		t.Errorf("%+v", got.Status)
	}
	s.running(heavy)
	if err := heavy.Do(t.Context(), "release"); err != nil {
		t.Fatal(err)
	}
	s.until(string(written)+" is False", func() bool { return s.status(written) == corev1.ConditionFalse })
	s.until("the taint is removed", func() bool { return !s.tainted() })
	return a
}

const (
	standardMemory = corev1.NodeMemoryPressure
	ownMemory      = corev1.NodeConditionType("plimsoll.dev/MemoryPressure")
)

// TestConditions_KubeletReportsAndEvictsLast covers a kubelet with the agent's threshold as its soft
// one. It reports for the agent; if the agent is gone for good, its lower hard threshold
// evicts.
func TestConditions_KubeletReportsAndEvictsLast(t *testing.T) {
	t.Parallel()
	s := newEnv(t, besideKubelet(t, map[string]string{"allocatableMemory.available": line}))
	s.controller()
	a := underPressure(t, s, standardMemory, ownMemory)
	if got := s.status(ownMemory); got != corev1.ConditionUnknown {
		t.Errorf("%s is written, too: %s", ownMemory, got)
	}
	orphan := s.add(cluster.Hog("orphan"))
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	s.order(orphan, "fill 670MiB at 500MiB/s") // the kubelet may evict before its end
	s.until("the kubelet evicts", func() bool { return s.get(orphan).Status.Reason == "Evicted" })
	if got := s.get(orphan); !strings.Contains(got.Status.Message, "Threshold quantity: "+backstop) {
		t.Errorf("%s", got.Status.Message)
	}
}

// TestConditions_OwnTypesBesideKubelet covers a kubelet that does not know the agent's threshold:
// the agent reports conditions of its own types.
func TestConditions_OwnTypesBesideKubelet(t *testing.T) {
	t.Parallel()
	s := newEnv(t, besideKubelet(t, nil))
	s.controller()
	underPressure(t, s, ownMemory, standardMemory)
}
