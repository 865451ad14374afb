package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// softly are the flags by which a node of 512 MiB evicts softly below 250 MiB and immediately
// below 60 MiB.
var softly = []string{"--eviction-hard=memory.available<60Mi", "--eviction-soft=memory.available<250Mi",
	"--eviction-soft-grace-period=memory.available=1s", "--eviction-max-pod-grace-period=30"}

// guarded is a pod with a grace period of 20 s and a budget that counts it.
func guarded() *corev1.Pod {
	pod := cluster.Hog("greedy", "fill 250MiB")
	pod.Labels = map[string]string{"app": "greedy"}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(20))
	return pod
}

// budget creates a PodDisruptionBudget for guarded pods, with the status of its controller.
func (s *env) budget(allowed int32) {
	s.t.Helper()
	budgets := s.API.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	made, err := budgets.Create(s.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "greedy"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "greedy"}}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		if err := budgets.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	})
	s.allow(allowed)
}

// allow sets the number of disruptions that the budget allows.
func (s *env) allow(disruptions int32) {
	s.t.Helper()
	budgets := s.API.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	b, err := budgets.Get(s.t.Context(), "greedy", metav1.GetOptions{})
	s.must(err)
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: disruptions, CurrentHealthy: 1, DesiredHealthy: 1 - disruptions, ExpectedPods: 1}
	_, err = budgets.UpdateStatus(s.t.Context(), b, metav1.UpdateOptions{})
	s.must(err)
}

func TestSoftEvict_WithoutKubelet(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}), "agent-direct-eviction.yaml")
	s.scenario("budget that refuses at first", (*env).budgetRefuses)
	s.scenario("hard threshold without the budget", (*env).hardCrossing)
	s.scenario("withdrawn soft eviction", (*env).markWithdrawn)
}

func (s *env) budgetRefuses() {
	s.budget(0)
	address := free(s.t)
	calm, greedy := s.add(cluster.Hog("calm", "fill 30MiB")), s.add(guarded())
	a := s.startUnderPressure([]*cluster.Pod{calm, greedy}, append(softly, "--soft-eviction=direct", "--healthz-bind-address="+address)...)
	begun := s.await(a, agent.SoftEvicting, agent.Evicted, agent.Failed)
	if begun.UID != greedy.UID() || begun.Grace == nil || *begun.Grace != 20 {
		s.t.Fatalf("decision: %+v", begun)
	}
	s.until("the budget refuses", func() bool { return s.metric(address, "plimsoll_soft_evictions_refused_total") >= 1 })
	if got := s.get(greedy); got.DeletionTimestamp != nil {
		s.t.Errorf("it is being deleted: %+v", got.ObjectMeta)
	}
	s.allow(1)
	s.until("the pod is being deleted", func() bool { return s.get(greedy).DeletionTimestamp != nil })
	if got := s.get(greedy); *got.DeletionGracePeriodSeconds != 20 {
		s.t.Errorf("it has %d s to end", *got.DeletionGracePeriodSeconds)
	}
	s.events(greedy, "Evicted")          // the agent has received the answer
	s.must(greedy.Remove(s.t.Context())) // as a kubelet would
	if d := s.await(a, agent.SoftEnded, agent.Withdrawn); d.Decision != agent.SoftEnded || len(d.Failed) > 0 {
		s.t.Errorf("decision: %+v", d)
	}
	s.await(a, agent.ReclaimDone)
	if events := s.events(greedy, "Evicted"); len(events) != 1 || !explains(events[0].Message, begun.Message) {
		s.t.Errorf("events: %+v", events)
	}
	s.running(calm)
	s.quiet(a)
	if log := a.Log(); !strings.Contains(log, "Soft eviction was refused") {
		s.t.Errorf("the log has no refusal by the budget:\n%s", log)
	}
}

func (s *env) hardCrossing() {
	s.budget(0)
	calm, greedy := s.add(cluster.Hog("calm", "fill 30MiB")), s.add(guarded())
	a := s.startUnderPressure([]*cluster.Pod{calm, greedy}, append(softly, "--soft-eviction=direct")...)
	begun := s.await(a, agent.SoftEvicting, agent.Evicted, agent.Failed)
	s.order(greedy, "fill 190MiB at 200MiB/s") // about 35 MiB are left: no race with exhaustion
	if d := s.await(a, agent.Escalated, agent.Evicted, agent.Failed); d.Decision != agent.Escalated || d.UID != greedy.UID() {
		s.t.Errorf("decision: %+v", d)
	}
	if hard := s.endsEscalated(a, greedy); hard == nil {
		s.checkReports(greedy, begun.Message, "memory")
	} else {
		s.checkReportedTwice(greedy, begun.Message, hard.Message)
	}
	s.exited(greedy)
	s.noOOM()
	s.only(greedy)
	s.running(calm)
}

// endsEscalated waits for the end of an escalated soft eviction. Its pod has 2 s to exit, on a busy machine too few.
// The next check then evicts the same pod immediately, and the soft eviction is withdrawn. It returns that other
// eviction, and nil without one. No decision is about another pod.
func (s *env) endsEscalated(a *trial.Agent, p *cluster.Pod) (hard *agent.Decision) {
	s.t.Helper()
	for {
		d := s.await(a, agent.SoftEnded, agent.Withdrawn, agent.Evicted, agent.SoftEvicting, agent.Failed)
		if d.UID != p.UID() || len(d.Failed) > 0 {
			s.t.Fatalf("decision: %+v", d)
		}
		switch d.Decision {
		case agent.Evicted:
			hard = d
		case agent.SoftEnded:
			if d.Processes == 0 || d.Status == agent.StatusNone || hard != nil {
				s.t.Errorf("decision: %+v", d)
			}
			return nil
		case agent.Withdrawn:
			if hard == nil {
				s.t.Errorf("withdrawn without another eviction: %+v", d)
			}
			return hard
		default:
			s.t.Fatalf("decision: %+v", d)
		}
	}
}

// checkReportedTwice checks the reports about a pod that was evicted twice, by the messages of both evictions. The API
// server has the status of one of them, and an event of one or both.
func (s *env) checkReportedTwice(p *cluster.Pod, messages ...string) {
	s.t.Helper()
	s.until("the pod has failed", func() bool { return s.get(p).Status.Phase == corev1.PodFailed })
	got := s.get(p)
	if !slices.Contains(messages, got.Status.Message) {
		s.t.Errorf("message %q, want one of %q", got.Status.Message, messages)
	}
	evicted(s.t, got, got.Status.Message)
	for _, e := range s.events(p, "Evicted") {
		if !slices.ContainsFunc(messages, func(m string) bool { return explains(e.Message, m) }) {
			s.t.Errorf("event: %+v", e)
		}
	}
}

func (s *env) markWithdrawn() {
	calm, greedy := s.add(cluster.Hog("calm", "fill 30MiB")), s.add(guarded())
	a := s.startUnderPressure([]*cluster.Pod{calm, greedy}, softly...)
	begun := s.await(a, agent.SoftEvicting, agent.Evicted, agent.Failed)
	marked := func() (podstatus.Request, bool) {
		request, is, err := podstatus.Marked(s.get(greedy))
		s.must(err)
		return request, is
	}
	s.until("the pod is marked", func() bool { _, is := marked(); return is })
	if r, _ := marked(); r.UID != greedy.UID() || r.Cause != "memory.available" || r.GracePeriodSeconds != 20 {
		s.t.Errorf("marked with %+v", r)
	}
	s.must(greedy.Do(s.t.Context(), "release"))
	if d := s.await(a, agent.Withdrawn, agent.SoftEnded); d.Decision != agent.Withdrawn || d.UID != begun.UID || len(d.Failed) > 0 {
		s.t.Errorf("decision: %+v", d)
	}
	if _, is := marked(); is {
		s.t.Errorf("the condition was not removed: %+v", s.get(greedy).Status.Conditions)
	}
	s.only()
	s.running(calm, greedy)
}
