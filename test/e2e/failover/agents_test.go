package failover

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

var getOptions metav1.GetOptions

const (
	pressure      = "plimsoll.dev/MemoryPressure"
	pressureTaint = "plimsoll.dev/memory-pressure"
)

// softEvictions checks that the pod marked by a live agent is evicted through policy/v1, with the
// requested grace period. A request of a dead agent has no effect.
func softEvictions(s *env) {
	s.controllers(1)
	n, silent := s.node("asks"), s.node("mute")
	n.Assist(true)
	s.poll("its agent is there", func() bool { return s.agentSeen(n) })
	marked, ofSilent, unmarked := s.run(n, hollow.Pod("marked", 0)), s.run(silent, hollow.Pod("of-silent", 0)), s.run(n, hollow.Pod("unmarked", 0))
	for _, pod := range []*corev1.Pod{ofSilent, marked} {
		s.mark(pod)
	}
	w := s.first("an eviction", recorder.Of("create", "pods/eviction"))
	var sent policyv1.Eviction
	if err := json.Unmarshal(w.Sent, &sent); err != nil || !w.Done() || sent.Name != "marked" {
		s.Errorf("the eviction: %s, %v", w, err)
	} else if o := sent.DeleteOptions; o == nil || o.GracePeriodSeconds == nil || *o.GracePeriodSeconds != 7 ||
		o.Preconditions == nil || o.Preconditions.UID == nil || *o.Preconditions.UID != marked.UID {
		s.Errorf("the eviction's options: %s", w.Sent)
	}
	s.until("its kubelet ends it", func() bool { return s.rec.Pod(marked.UID).Gone })
	pass(s.Context(), slack)
	for _, pod := range []*corev1.Pod{ofSilent, unmarked} {
		if s.rec.Pod(pod.UID).Leaving() {
			s.Errorf("pod %s was evicted", pod.Name)
		}
	}
	if n := len(s.writes(recorder.Of("create", "pods/eviction"))); n != 1 {
		s.Errorf("got %d requests for evictions", n)
	}
}

// mark requests a pod's soft eviction like an agent.
func (s *env) mark(pod *corev1.Pod) {
	s.Helper()
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: "plimsoll.dev/EvictionRequested", Status: corev1.ConditionTrue, Reason: "MemoryPressure", LastTransitionTime: now,
		Message: "The node was low on resource: memory. [plimsoll.dev cause=memory.available gracePeriodSeconds=7]",
	}}}})
	s.must(err)
	_, err = s.api.CoreV1().Pods(pod.Namespace).Patch(s.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
}

// remainsOfAgent checks that the conditions of an agent are removed once it is dead, and not before.
func remainsOfAgent(s *env) {
	s.controllers(1)
	n, alive := s.node("left"), s.node("kept")
	for _, node := range []*hollow.Node{n, alive} {
		node.Assist(true)
		s.poll("its agent is there", func() bool { return s.agentSeen(node) })
		s.press(node)
	}
	n.Assist(false)
	s.until("the condition and the taint are removed", func() bool {
		left := s.rec.Node("left")
		return left.Is(pressure) == "" && left.Taint(pressureTaint, corev1.TaintEffectNoSchedule) == nil
	})
	pass(s.Context(), slack)
	names := []string{"left"}
	if len(silences(alive.AgentBeats(), agentGrace, time.Time{})) == 0 { // this process sent its heartbeats in time
		names = append(names, "kept")
	}
	ready := s.untouched(n, alive)
	for _, name := range names {
		node, want := s.rec.Node(name), corev1.ConditionStatus("")
		if name == "kept" {
			want = corev1.ConditionTrue
		}
		if node.Is(pressure) != want || (node.Taint(pressureTaint, corev1.TaintEffectNoSchedule) != nil) != (name == "kept") {
			s.Errorf("node %s: %s is %q, taints %v", name, pressure, node.Is(pressure), node.Spec.Taints)
		}
		if ready && node.Is(corev1.NodeReady) != corev1.ConditionTrue {
			s.Errorf("node %s is ready: %q", name, node.Is(corev1.NodeReady))
		}
	}
}

// press reports pressure on a node as its agent does.
func (s *env) press(n *hollow.Node) {
	s.Helper()
	nodes := s.api.CoreV1().Nodes()
	condition := `{"status": {"conditions": [{"type": "` + pressure + `", "status": "True", "reason": "Test"}]}}`
	_, err := nodes.Patch(s.Context(), n.Name, types.StrategicMergePatchType, []byte(condition), metav1.PatchOptions{}, "status")
	s.must(err)
	taint := `{"spec": {"taints": [{"key": "` + pressureTaint + `", "effect": "NoSchedule"}]}}`
	_, err = nodes.Patch(s.Context(), n.Name, types.StrategicMergePatchType, []byte(taint), metav1.PatchOptions{})
	s.must(err)
	s.until("there is pressure", func() bool { return s.rec.Node(n.Name).Is(pressure) == corev1.ConditionTrue })
}
