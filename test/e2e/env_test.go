package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/internal/evict/podstatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/trial"
)

const mib = 1 << 20

// patience bounds every wait.
var patience = cluster.Patience(60 * time.Second)

var binary string

func TestMain(m *testing.M) {
	var err error
	if binary, err = trial.Binary(); err != nil {
		fmt.Fprintln(os.Stderr, err, "- build it with `make build`")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// env is a cluster with the agent's rights in it.
type env struct {
	*cluster.Cluster
	t          *testing.T
	API        kubernetes.Interface // as the administrator
	kubeconfig string               // of the agent, through the front that can fail
	state      string
	pods       *[]*cluster.Pod  // of a scenario, removed at its end
	restarted  bool             // the API server, which at first has no rights
	starts     map[string]int32 // by the UID of a pod: starts of its container before its eviction
}

// newEnv creates an env. Optional rights are named by their files in deploy/rbac.
func newEnv(t *testing.T, o cluster.Options, rights ...string) *env {
	t.Helper()
	s := &env{Cluster: cluster.Make(t, o), t: t, state: filepath.Join(t.TempDir(), "state.json")}
	clients, err := s.Clients()
	if err != nil {
		t.Fatal(err)
	}
	s.API = clients
	for _, file := range append([]string{"agent.yaml"}, rights...) {
		s.must(s.Grant(t.Context(), filepath.Join("..", "..", "deploy", "rbac", file)))
	}
	token, err := s.Token(t.Context(), "plimsoll-system", "plimsoll-agent")
	if err != nil {
		t.Fatal(err)
	}
	if s.kubeconfig, err = s.Kubeconfig(s.Front.Config(s.Bearer(token))); err != nil {
		t.Fatal(err)
	}
	return s
}

// scenario runs one of several scenarios of an env, with a state and pods of its own.
func (s *env) scenario(name string, run func(*env)) {
	s.t.Run(name, func(t *testing.T) {
		own := *s
		own.t, own.state, own.pods = t, filepath.Join(t.TempDir(), "state.json"), &[]*cluster.Pod{}
		t.Cleanup(func() {
			for _, p := range *own.pods {
				if err := p.Remove(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
		run(&own)
	})
}

// apply applies an admission policy.
func (s *env) apply(policy string) {
	s.t.Helper()
	if err := s.ApplyPolicy(s.t.Context(), policy); err != nil {
		s.t.Fatal(err)
	}
}

// start runs the agent on the env's node with the flags that tests need; args override them.
func (s *env) start(args ...string) *trial.Agent {
	s.t.Helper()
	return s.startIn(nil, args...)
}

// startIn is start with additions to the agent's environment.
func (s *env) startIn(environment []string, args ...string) *trial.Agent {
	s.t.Helper()
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--eviction-hard=") }) {
		args = append(args, "--eviction-hard=memory.available<100Mi") // the machine's disks are irrelevant
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := trial.Command(binary, append(s.flags(), args...)...)
	cmd.Env = append(os.Environ(), environment...)
	a, err := trial.Run(ctx, s.Node.Enter(cmd))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			s.t.Error(err)
		}
		for range a.Decisions {
			continue
		}
		if !s.restarted && strings.Contains(a.Log(), "is forbidden") {
			s.t.Error("the agent lacks a right")
		}
		if s.t.Failed() {
			s.t.Logf("last log of the agent:\n%s", a.Log())
		}
	})
	return a
}

func (s *env) flags() []string {
	return []string{
		"--kubeconfig=" + s.kubeconfig, "--hostname-override=" + cluster.NodeName,
		"--container-runtime-endpoint=unix://" + s.Node.Socket,
		"--node-cgroup=" + s.Node.Cgroup, "--root-dir=" + s.Node.KubeletRoot, "--pod-logs-dir=" + s.Node.PodLogs,
		"--kubelet-config=" + orNone(s.Node.KubeletConfig), "--state-file=" + s.state, "--disarm-file=" + s.disarmFile(),
		"--enforce-node-allocatable=none",
		"--eviction-pressure-transition-period=5s", "--monitoring-period=1s", "--healthz-bind-address=",
	}
}

// startUnderPressure runs the agent on a node with a met threshold. The agent is disarmed until it knows the pods and
// would evict one: an agent without pods reports that none could be evicted.
func (s *env) startUnderPressure(pods []*cluster.Pod, args ...string) *trial.Agent {
	s.t.Helper()
	s.must(os.WriteFile(s.disarmFile(), nil, 0o600))
	a := s.start(args...)
	s.knows(pods...)
	s.await(a, agent.WouldEvict)
	s.must(os.Remove(s.disarmFile()))
	return a
}

func (s *env) disarmFile() string { return filepath.Join(filepath.Dir(s.state), "disarm") }

func orNone(path string) string {
	if path == "" {
		return "/none"
	}
	return path
}

// add runs a pod.
func (s *env) add(pod *corev1.Pod) *cluster.Pod {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	p, err := s.Node.AddPod(ctx, pod)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.pods != nil {
		*s.pods = append(*s.pods, p)
	}
	return p
}

// get reads a pod from the API server.
func (s *env) get(p *cluster.Pod) *corev1.Pod {
	s.t.Helper()
	got, err := s.API.CoreV1().Pods(p.Object.Namespace).Get(s.t.Context(), p.Object.Name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// await returns the agent's first decision with one of the verbs.
func (s *env) await(a *trial.Agent, verbs ...agent.Verb) *agent.Decision {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	d, err := a.Await(ctx, verbs...)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// until polls until a condition without notification is met.
func (s *env) until(what string, so func() bool) {
	s.t.Helper()
	cluster.Poll(s.t, patience, what, so)
}

// evicted checks that a pod has the status of an eviction by its kubelet.
func evicted(t *testing.T, pod *corev1.Pod, message string) {
	t.Helper()
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" || pod.Status.Message != message {
		t.Errorf("pod %s: phase %s, reason %q, message %q\nwant message %q", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message, message)
	}
	reasons := map[corev1.PodConditionType]string{corev1.DisruptionTarget: "TerminationByKubelet", podstatus.Evicted: ""}
	for _, c := range pod.Status.Conditions {
		reason, known := reasons[c.Type]
		if known && (c.Status != corev1.ConditionTrue || c.Message != message || reason != "" && c.Reason != reason) {
			t.Errorf("pod %s: %+v", pod.Name, c)
		}
		delete(reasons, c.Type)
	}
	if len(reasons) > 0 {
		t.Errorf("pod %s: no condition of %v in %+v", pod.Name, slices.Collect(maps.Keys(reasons)), pod.Status.Conditions)
	}
}

// evicts waits for an eviction and checks all its reports: the decision, the pod's status and
// its only event.
func (s *env) evicts(a *trial.Agent, p *cluster.Pod, starved string) *agent.Decision {
	s.t.Helper()
	d := s.await(a, agent.Evicted, agent.Failed)
	if d.UID != p.UID() || d.Decision != agent.Evicted {
		s.t.Fatalf("want an eviction of pod %s, got %+v", p.Object.Name, d)
	}
	if !toldInTime(d) {
		s.t.Errorf("decision: %+v", d)
	}
	s.checkReports(p, d.Message, starved)
	return d
}

// toldInTime reports whether the API server had the status of the evicted pod before the kill, or did not
// answer in the time that it has: 2 s, or half the time that memory lasts beyond a kill. A busy machine may need
// longer. Half of that must have been waited: memory may have fallen faster meanwhile.
func toldInTime(d *agent.Decision) bool {
	const most, reaction = 2000, 50 // ms
	wait := float64(most)
	if d.TimeToExhaustion != nil {
		wait = min(wait, (*d.TimeToExhaustion-reaction)/2)
	}
	return d.Status == agent.StatusReported || d.Status == agent.StatusPending && d.StatusTime != nil && *d.StatusTime >= wait/2
}

// explains reports whether an event has the message of the status and one sentence behind it.
func explains(event, message string) bool {
	rest, is := strings.CutPrefix(event, message)
	return is && strings.HasPrefix(rest, "Plimsoll evicted this pod because ") && strings.HasSuffix(rest, ".")
}

// checkReports checks that the status and exactly one event report a pod's eviction.
func (s *env) checkReports(p *cluster.Pod, message, starved string) {
	s.t.Helper()
	s.until("the pod has failed", func() bool { return s.get(p).Status.Phase == corev1.PodFailed })
	events := s.events(p, "Evicted")
	if len(events) != 1 || !explains(events[0].Message, message) || events[0].Annotations["starved_resource"] != starved {
		s.t.Errorf("events: %+v", events)
	}
	evicted(s.t, s.get(p), message)
}

// only checks that no pods but these were evicted.
func (s *env) only(pods ...*cluster.Pod) {
	s.t.Helper()
	list, err := s.API.CoreV1().Pods(metav1.NamespaceAll).List(s.t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Failed"})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, failed := range list.Items {
		if !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.Object.UID == failed.UID }) {
			s.t.Errorf("pod %s was evicted, too: %s", failed.Name, failed.Status.Message)
		}
	}
}

// events returns a pod's events with a reason, once there is one.
func (s *env) events(p *cluster.Pod, reason string) (found []corev1.Event) {
	s.t.Helper()
	s.until("an event "+reason+" of "+p.Object.Name, func() bool {
		list, err := s.API.CoreV1().Events(p.Object.Namespace).List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + p.UID()})
		if err != nil {
			s.t.Fatal(err)
		}
		found = found[:0]
		for _, e := range list.Items {
			if e.Reason == reason {
				found = append(found, e)
			}
		}
		return len(found) > 0
	})
	return found
}

// exited waits until a pod has no process, that of its sandbox included.
func (s *env) exited(p *cluster.Pod) {
	s.t.Helper()
	s.until("all processes of pod "+p.Object.Name+" have exited", func() bool {
		pids, err := p.PIDs()
		return err == nil && len(pids) == 0
	})
}

// running checks that pods still run.
func (s *env) running(pods ...*cluster.Pod) {
	s.t.Helper()
	for _, p := range pods {
		if got := s.get(p); got.Status.Phase != corev1.PodRunning {
			s.t.Errorf("pod %s: phase %s, %s", got.Name, got.Status.Phase, got.Status.Message)
			continue
		}
		if err := p.Do(s.t.Context(), "fill 1MiB"); err != nil {
			s.t.Errorf("pod %s executes no command: %v", p.Object.Name, err)
		}
	}
}

// page reads a page of the agent at an address, and reads it again after an error: the server closes the
// connection of a delayed client.
func (s *env) page(address, path string) (text string) {
	s.t.Helper()
	s.until("the agent answers "+path, func() (answered bool) {
		text, answered = readPage("http://" + address + path)
		return answered
	})
	return text
}

// metric returns the sum of a metric's series with a prefix: its name, and its first labels.
func (s *env) metric(address, series string) (sum float64) {
	s.t.Helper()
	for line := range strings.Lines(s.page(address, "/metrics")) {
		if rest, is := strings.CutPrefix(line, series); is && strings.ContainsAny(rest[:1], " ,}") {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			s.must(err)
			sum += value
		}
	}
	return sum
}

func readPage(url string) (text string, complete bool) {
	answer, err := http.Get(url)
	if err != nil {
		return "", false
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return strings.TrimSpace(string(body)), err == nil
}
