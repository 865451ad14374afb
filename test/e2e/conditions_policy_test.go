package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// controller runs plimsoll controller, which derives taints from conditions.
func (s *env) controller() *cluster.Component {
	s.t.Helper()
	s.must(s.Grant(s.t.Context(), filepath.Join("..", "..", "deploy", "rbac", "controller.yaml")))
	token, err := s.Token(s.t.Context(), "plimsoll-system", "plimsoll-controller")
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := s.Kubeconfig(s.Bearer(token))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := s.Launch(s.t.Context(), cluster.Program{Name: "plimsoll-controller", Command: func() *exec.Cmd {
		return exec.Command(binary, "controller", "--mode=replace", "--kubeconfig="+config, "--healthz-bind-address=")
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *env) node() *corev1.Node {
	s.t.Helper()
	n, err := s.API.CoreV1().Nodes().Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// tainted reports whether the scheduler sends only pods that tolerate memory pressure.
func (s *env) tainted() bool {
	s.t.Helper()
	return slices.ContainsFunc(s.node().Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeMemoryPressure })
}

// described returns an operator's view of the node's taints and conditions.
func (s *env) described() string {
	s.t.Helper()
	text, err := s.Kubectl(s.t.Context(), "describe", "node", cluster.NodeName)
	if err != nil {
		s.t.Fatal(err)
	}
	taints := text[max(strings.Index(text, "Taints:"), 0):]
	taints, _, _ = strings.Cut(taints, "\n")
	conditions := text[max(strings.Index(text, "Conditions:"), 0):]
	conditions, _, _ = strings.Cut(conditions, "\nAddresses:")
	return taints + "\n" + conditions
}

// maxOutlasting is the maximum time that a standard condition outlasts its agent: a minute after its
// last report, the truncation of times by the API, and the kubelet's next tick.
const maxOutlasting = 60*time.Second + time.Second + 10*time.Second

// TestConditions_KubeletKeepsConditionOfAgent covers a kubelet that does not know the agent's threshold.
// With the admission policy it keeps the standard condition as the agent reports it, and drops
// it without reports. It objects every ten seconds, without effect.
func TestConditions_KubeletKeepsConditionOfAgent(t *testing.T) {
	t.Parallel()
	s := newEnv(t, besideKubelet(t, nil))
	s.apply("agent-own-node.yaml")
	s.apply("kubelet-keeps-conditions.yaml")
	s.bindToNode()
	controller := s.controller()
	a := underPressure(t, s, standardMemory, "none")
	if got := s.condition(ownMemory).Status; got != corev1.ConditionFalse {
		t.Errorf("%s is %s after the pressure", ownMemory, got)
	}
	t.Logf("events of the kubelet's objections: %d", s.objections("NodeHasSufficientMemory"))

	more := ballast("fill 570MiB")
	more.Name = "more"
	heavy := s.add(more)
	s.until("the standard condition is True again", func() bool { return s.status(standardMemory) == corev1.ConditionTrue })
	if err := controller.Kill(); err != nil { // it would remove the dead agent's conditions sooner
		t.Fatal(err)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	last := s.condition(ownMemory).LastHeartbeatTime
	s.follow(last.Add(maxOutlasting + patience))
	after := s.condition(standardMemory).LastTransitionTime.Sub(last.Time)
	if after < time.Minute {
		t.Errorf("the condition ended %s after the agent's last heartbeat", after)
	}
	t.Logf("the condition ended %s after the agent's last heartbeat", after)
	if err := controller.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.until("the taint is removed", func() bool { return !s.tainted() })
	s.running(heavy)
}

// bindToNode gives the agent a token bound to its node, as one under systemd needs it beside
// agent-own-node.yaml.
func (s *env) bindToNode() {
	s.t.Helper()
	n := s.node()
	token, err := s.Kubectl(s.t.Context(), "create", "token", "plimsoll-agent", "--namespace=plimsoll-system",
		"--bound-object-kind=Node", "--bound-object-name="+n.Name, "--bound-object-uid="+string(n.UID), "--duration=2h")
	if err != nil {
		s.t.Fatal(err)
	}
	if s.kubeconfig, err = s.Kubeconfig(s.Front.Config(s.Bearer(strings.TrimSpace(token)))); err != nil {
		s.t.Fatal(err)
	}
}

// follow waits until memory pressure is False, at most until the given time.
func (s *env) follow(until time.Time) {
	s.t.Helper()
	deadline := time.After(time.Until(until))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for s.status(standardMemory) != corev1.ConditionFalse {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("%s is %s without the agent", standardMemory, s.status(standardMemory))
		}
	}
}

// objections returns the count of the node's events with a reason.
func (s *env) objections(reason string) (n int32) {
	s.t.Helper()
	list, err := s.API.CoreV1().Events("default").List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			n += max(e.Count, 1)
		}
	}
	return n
}
