package e2e

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

// command runs plimsoll with an administrator's rights.
func (s *env) command(args ...string) (out string, status int) {
	s.t.Helper()
	admin, err := s.Kubeconfig(s.Admin())
	s.must(err)
	cmd := exec.CommandContext(s.t.Context(), binary, append(args, "--kubeconfig="+admin, "--timeout="+patience.String())...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	s.t.Logf("plimsoll %s: %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), text)
	return string(text), cmd.ProcessState.ExitCode()
}

// follows runs an arming command that must succeed.
func (s *env) follows(args ...string) {
	s.t.Helper()
	if out, status := s.command(args...); status != 0 {
		s.t.Errorf("%v: %d\n%s", args, status, out)
	}
}

// turned checks that an agent has applied a setting by the time the command returns: its lease reports what it checks
// before every kill. Its loop logs the change at its next check, which may be later.
func (s *env) turned(a *trial.Agent, verb agent.Verb) {
	s.t.Helper()
	if armed := s.lease("armed"); armed != strconv.FormatBool(verb == agent.Armed) {
		s.t.Errorf("%s: after the command had returned, the lease reports armed %q", verb, armed)
	}
	s.await(a, verb)
}

// lease returns an annotation of the agent's lease; empty without a lease.
func (s *env) lease(annotation string) string {
	s.t.Helper()
	l, err := s.API.CoordinationV1().Leases("plimsoll-system").Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.must(err)
	}
	return l.Annotations["plimsoll.dev/"+annotation]
}

// nodeNow returns the current Node.
func (s *env) nodeNow() *corev1.Node {
	s.t.Helper()
	n, err := s.API.CoreV1().Nodes().Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	s.must(err)
	return n
}

// clearSettings removes all arming settings after a scenario.
func (s *env) clearSettings() {
	s.t.Cleanup(func() {
		none := []byte(`{"metadata":{"annotations":{"plimsoll.dev/arming":null,"plimsoll.dev/accept-findings":null}}}`)
		if _, err := s.API.CoreV1().Nodes().Patch(context.Background(), cluster.NodeName, types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
			s.t.Error(err)
		}
		if err := s.API.CoreV1().ConfigMaps("plimsoll-system").DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=plimsoll-arming"}); err != nil {
			s.t.Error(err)
		}
	})
}

// traces returns everything that an agent has written in the cluster and on its node.
func (s *env) traces(pods ...*cluster.Pod) (all []string) {
	s.t.Helper()
	n := s.nodeNow()
	for _, c := range n.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "plimsoll.dev/") || c.Type == corev1.NodeMemoryPressure && c.Status == corev1.ConditionTrue {
			all = append(all, "condition "+string(c.Type))
		}
	}
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "plimsoll.dev/") {
			all = append(all, "taint "+taint.Key)
		}
	}
	for _, p := range pods {
		if _, marked, _ := podstatus.Marked(s.get(p)); marked {
			all = append(all, "mark on "+p.Object.Name)
		}
	}
	for _, file := range []string{s.state, s.disarmFile()} {
		if _, err := os.Lstat(file); err == nil {
			all = append(all, file)
		}
	}
	return all
}

func TestArming_FollowsSettings(t *testing.T) {
	t.Parallel()
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}), "agent-pressure-taint.yaml")
	s.scenario("arming despite a finding", (*env).armedByAnnotation)
	s.scenario("disarming of all without API server", (*env).disarmedWhileAway)
	s.scenario("cleanup by setting", (*env).cleansUpBySetting)
	s.scenario("end of the DaemonSet", (*env).endsWithDaemonSet)
}

// armedByAnnotation checks arming by annotation, without the right that --soft-eviction=direct
// requires.
func (s *env) armedByAnnotation() {
	s.clearSettings()
	calm, greedy := s.add(cluster.Hog("calm", "fill 30MiB")), s.add(cluster.Hog("greedy", "fill 400MiB"))
	a := s.start("--dry-run", "--soft-eviction=direct", "--pressure-conditions=own")
	d := s.await(a, agent.WouldEvict, agent.Evicted)
	if d.Decision != agent.WouldEvict || d.UID != greedy.UID() || len(d.Ranking) != 2 {
		s.t.Fatalf("decision: %+v", d)
	}
	s.until("the lease reports it", func() bool { return s.lease("armed") == "false" && s.lease("dry-run") == "true" })
	if n := s.nodeNow(); s.status("plimsoll.dev/MemoryPressure") != corev1.ConditionUnknown || len(n.Spec.Taints) > 0 {
		s.t.Errorf("a disarmed agent has written: %+v, %+v", n.Status.Conditions, n.Spec.Taints)
	}
	out, status := s.command("arm", cluster.NodeName)
	if status != 1 || !strings.Contains(out, "right-missing") || !strings.Contains(out, "Remedy: ") {
		s.t.Errorf("armed despite a finding: %d\n%s", status, out)
	}
	found := s.lease("findings")
	if !strings.Contains(found, "right-missing") || !strings.HasPrefix(s.lease("armed-reason"), "refused: ") {
		s.t.Errorf("the lease: %s, %s", found, s.lease("armed-reason"))
	}
	s.follows("arm", cluster.NodeName, "--accept-findings="+found+",two-agents") // other tests run agents as well
	s.turned(a, agent.Armed)
	s.evicts(a, greedy, "memory")
	s.running(calm)
	s.until("pressure is reported", func() bool { return s.status("plimsoll.dev/MemoryPressure") != corev1.ConditionUnknown })
}

// disarmedWhileAway checks that a successor without connection knows the last setting.
func (s *env) disarmedWhileAway() {
	s.clearSettings()
	heavy := s.add(cluster.Hog("heavy", "fill 300MiB"))
	first := s.start()
	s.knows(heavy)
	s.until("the agent has a lease", func() bool { return s.lease("armed") == "true" })
	s.follows("disarm", "--all")
	s.turned(first, agent.Disarmed)
	s.must(first.Stop())
	s.Front.Refuse()
	// Only the setting ends the condition. With a short period, a late agent would report no pressure at all.
	second := s.start("--eviction-pressure-transition-period=1h")
	s.must(heavy.Do(s.t.Context(), "fill 130MiB"))
	if d := s.await(second, agent.WouldEvict, agent.Evicted); d.Decision != agent.WouldEvict {
		s.t.Errorf("decision: %+v", d)
	}
	s.must(s.Front.Pass())
	s.until("the agent reconnects", func() bool { return strings.Contains(s.lease("armed-reason"), "ConfigMap") })
	s.running(heavy)
	s.follows("arm", "--all")
	s.await(second, agent.Armed)
	s.evicts(second, heavy, "memory")
	s.until("pressure is reported", func() bool { return s.status(corev1.NodeMemoryPressure) == corev1.ConditionTrue })
	s.follows("disarm", cluster.NodeName)
	s.until("the standard condition is withdrawn", func() bool { return s.status(corev1.NodeMemoryPressure) == corev1.ConditionFalse })
}

// allTraces counts three conditions, a taint, a mark and the state file.
const allTraces = 6

// pressed starts an agent under lasting pressure. It has requested the soft eviction of a pod,
// which nothing carries out.
func (s *env) pressed(environment ...string) (*trial.Agent, *cluster.Pod) {
	s.t.Helper()
	s.add(cluster.Hog("calm", "fill 30MiB"))
	greedy := s.add(guarded())
	args := append(softly, "--pressure-taint", "--pressure-conditions=own")
	a := s.startIn(environment, args...)
	s.await(a, agent.SoftEvicting)
	s.until("all reports of the agent exist", func() bool { return len(s.traces(greedy)) == allTraces })
	return a, greedy
}

// own counts the conditions of a Node with the agent's own types.
func own(n *corev1.Node) (kinds int) {
	for _, c := range n.Status.Conditions {
		if strings.HasPrefix(string(c.Type), "plimsoll.dev/") {
			kinds++
		}
	}
	return kinds
}

func (s *env) cleansUpBySetting() {
	s.clearSettings()
	a, greedy := s.pressed()
	s.must(a.Stop()) // an update: all traces stay
	if got := s.traces(greedy); len(got) != allTraces {
		s.t.Errorf("after the stop of the agent got %v", got)
	}
	second := s.start(append(softly, "--pressure-taint", "--pressure-conditions=own")...)
	s.must(os.WriteFile(s.disarmFile(), nil, 0o600))
	s.follows("cleanup", cluster.NodeName)
	if got := s.traces(greedy); len(got) > 0 {
		s.t.Errorf("got %v after the cleanup", got)
	}
	s.must(second.Stop())
	if got := s.traces(greedy); len(got) > 0 || s.lease("armed-reason") != "cleaned-up" || s.lease("armed") != "false" {
		s.t.Errorf("got %v after the cleanup, lease %s", got, s.lease("armed-reason"))
	}
	s.running(greedy)
}

func (s *env) endsWithDaemonSet() {
	sets := s.API.AppsV1().DaemonSets("plimsoll-system")
	labels := map[string]string{"app": "agent"}
	_, err := sets.Create(s.t.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "plimsoll-agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{cluster.HogContainer("main")}}},
	}}, metav1.CreateOptions{})
	s.must(err)
	pod := []string{"POD_NAMESPACE=plimsoll-system", "PLIMSOLL_DAEMONSET=plimsoll-agent"}
	first, greedy := s.pressed(pod...)
	s.must(first.Stop())
	if got := s.traces(greedy); len(got) != allTraces {
		s.t.Errorf("with an existing DaemonSet got only %v", got)
	}
	since := time.Now() // all traces and an armed lease are the first agent's
	second := s.startIn(pod, append(softly, "--pressure-taint", "--pressure-conditions=own")...)
	s.until("the agent renews its lease", func() bool {
		return own(s.nodeNow()) == 3 && s.renewed("plimsoll-system").After(since) && s.lease("armed") == "true"
	})
	s.must(sets.Delete(s.t.Context(), "plimsoll-agent", metav1.DeleteOptions{}))
	s.must(second.Stop())
	if got := s.traces(greedy); len(got) > 0 || s.lease("armed-reason") != "cleaned-up" {
		s.t.Errorf("got %v after the cleanup, lease %s", got, s.lease("armed-reason"))
	}
	s.running(greedy)
}
