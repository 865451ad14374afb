package whole

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

// repeats is how often each scenario runs, one after the other on the same node. REPEAT sets it.
func repeats(t testing.TB) int {
	t.Helper()
	text, given := os.LookupEnv("REPEAT")
	if !given {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("REPEAT=%s: not a positive number", text)
	}
	return n
}

// scenario runs one scenario of the run with pods of its own. Afterwards no pod may have failed
// except those to be evicted, and a new pod must start.
func (s *env) scenario(name string, run func(*env)) {
	for range repeats(s) {
		s.TB.(*testing.T).Run(name, func(t *testing.T) {
			own := s.begin(t)
			run(own)
			own.transcript()
			own.relieved()
			own.run(cluster.Hog("newcomer"))
		})
	}
}

// transcript logs the scenario's decisions about pods, and its pods and events as an operator
// sees them: test/e2e/transcript makes docs/internals/whole-node-transcript.md of it.
func (s *env) transcript() {
	s.Helper()
	if !testing.Verbose() {
		return
	}
	for _, pod := range s.own("agent") {
		for _, d := range s.decisions(s.Node.Pod(&pod)) {
			if d.Time.After(s.began) && d.Pod != "" {
				line, err := json.Marshal(d)
				s.must(err)
				s.Logf("decision: %s", line)
			}
		}
	}
	s.Logf("kubectl get pods\n%s", s.show("get", "pods"))
	if names := s.eventNames(); len(names) > 0 {
		s.Logf("kubectl get events\n%s", s.show(append([]string{"get", "events"}, names...)...))
	}
}

// eventNames returns the scenario's events without those of each start of a pod.
func (s *env) eventNames() (names []string) {
	starts := []string{"Scheduled", "Pulled", "Created", "Started"}
	for _, e := range s.rec.EventsThat(func(e *corev1.Event) bool {
		return e.Namespace == metav1.NamespaceDefault && !e.LastTimestamp.Time.Before(s.began.Truncate(time.Second)) && !slices.Contains(starts, e.Reason)
	}) {
		if !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// lastScenario runs the last scenario; the node is not checked afterwards.
func (s *env) lastScenario(name string, run func(*env)) {
	s.TB.(*testing.T).Run(name, func(t *testing.T) { run(s.begin(t)) })
}

func (s *env) begin(t *testing.T) *env {
	own := *s
	own.TB, own.began, own.cast, own.expectEvicted = t, time.Now(), &[]*cluster.Pod{}, map[types.UID]bool{}
	t.Cleanup(own.end)
	return &own
}

func (s *env) end() {
	s.checkOthersRun()
	if s.Failed() {
		s.Logf("%s", s.logs())
		s.Logf("%s", s.show("get", "nodes,pods", "--all-namespaces", "--output=wide"))
		s.Logf("%s", s.show("get", "pods", "--all-namespaces", "--output=custom-columns=POD:.metadata.name,"+
			"ENDED:.status.containerStatuses[*].lastState.terminated.reason,EXIT:.status.containerStatuses[*].lastState.terminated.exitCode"))
		s.Logf("%s", s.show("get", "events", "--all-namespaces", "--sort-by=.metadata.creationTimestamp"))
		s.Logf("%s", s.show("describe", "node", cluster.NodeName))
	}
	s.dismiss()
}

// dismiss removes the scenario's pods, all at the same time.
func (s *env) dismiss() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var gone sync.WaitGroup
	for _, p := range *s.cast {
		gone.Go(func() {
			if err := p.Remove(ctx); err != nil {
				s.Error(err)
			}
		})
	}
	gone.Wait()
}

// run has a pod scheduled and waits until it runs.
func (s *env) run(pod *corev1.Pod) *cluster.Pod {
	s.Helper()
	return s.pods(pod)[0]
}

// pods has several pods scheduled. It returns them in order once all run and have executed
// their scripts.
func (s *env) pods(pods ...*corev1.Pod) (running []*cluster.Pod) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for i, p := range pods {
		p = s.Node.Prepare(p)
		made, err := s.api.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		s.must(err)
		pods[i] = made
		*s.cast = append(*s.cast, s.Node.Pod(made))
	}
	for i, p := range pods {
		one, err := s.Node.AddPod(ctx, p) // already created: this only waits
		if err != nil {
			s.Fatalf("%v\n%s", err, s.show("describe", "pod", "--namespace="+p.Namespace, p.Name))
		}
		(*s.cast)[len(*s.cast)-len(pods)+i] = one
		for _, c := range p.Spec.Containers {
			s.must(one.DoIn(ctx, c.Name, "fill 64KiB")) // after its script
		}
		running = append(running, one)
	}
	return running
}

// do makes a pod's hog execute a command.
func (s *env) do(p *cluster.Pod, command string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(p.Do(ctx, command))
}

// order starts a command that the hog may not survive.
func (s *env) order(p *cluster.Pod, command string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(p.Order(ctx, "main", command))
}

// pod returns the last state of a pod.
func (s *env) pod(p *cluster.Pod) *recorder.Pod { return s.rec.Pod(p.Object.UID) }

// awaitEvicted waits until a pod is evicted for a resource, and checks all its reports: status,
// condition, and the only event.
func (s *env) awaitEvicted(p *cluster.Pod, starved string) {
	s.Helper()
	s.awaitContainersEvicted(p, starved, "main")
}

// awaitContainersEvicted is awaitEvicted for a pod with the named offending containers.
func (s *env) awaitContainersEvicted(p *cluster.Pod, starved, offending string) {
	s.Helper()
	s.expectEvicted[p.Object.UID] = true
	name := p.Object.Name
	s.until(name+" is evicted", func() bool { return evicted(s.pod(p)) })
	got := s.first(p, evicted) // a kubelet may have omitted the reason since
	if !strings.HasPrefix(got.Status.Message, "The node was low on resource: "+starved+".") {
		s.Errorf("pod %s: %q", name, got.Status.Message)
	}
	if c := got.Condition(corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != "TerminationByKubelet" {
		s.Errorf("pod %s: %+v", name, got.Status.Conditions)
	}
	e := s.event(p, got.Status.Message)
	if e == nil {
		return
	}
	if e.Annotations["starved_resource"] != starved {
		s.Errorf("pod %s: the event's annotations are %v", name, e.Annotations)
	}
	// Inodes and processes are counted by pod.
	if (starved == "memory" || starved == "ephemeral-storage") && e.Annotations["offending_containers"] != offending {
		s.Errorf("pod %s: the event's annotations are %v", name, e.Annotations)
	}
}

// event returns the only event of a pod's eviction with a message. A hog that fills memory as fast as it can also meets the
// kubelet's lower threshold for a moment. A check of the kubelet at that moment evicts the same pod, with an event of its own.
func (s *env) event(p *cluster.Pod, message string) *corev1.Event {
	s.Helper()
	events := func() []*corev1.Event { return s.rec.Events(p.Object.UID, "Evicted") }
	reports := func(e *corev1.Event) bool { return strings.HasPrefix(e.Message, message) }
	s.until("an event reports "+p.Object.Name, func() bool { return slices.ContainsFunc(events(), reports) })
	var found []*corev1.Event
	for _, e := range events() {
		switch {
		case reports(e):
			found = append(found, e)
		case e.Source.Component != "kubelet" || !strings.Contains(e.Message, "Threshold quantity: "+kubeletThreshold):
			s.Errorf("pod %s: another event: %q", p.Object.Name, e.Message)
		}
	}
	if e := found[0]; len(found) != 1 || e.Count > 1 {
		s.Errorf("pod %s: %d events, the first counts %d: %q", p.Object.Name, len(found), e.Count, e.Message)
	}
	return found[0]
}

// inOrder checks that pods were evicted one after the other.
func (s *env) inOrder(victims ...*cluster.Pod) {
	s.Helper()
	when := func(p *cluster.Pod) time.Time {
		states := s.rec.PodStates(p.Object.UID)
		i := slices.IndexFunc(states, evicted)
		if i < 0 {
			s.Fatalf("pod %s was not evicted", p.Object.Name)
		}
		return states[i].At
	}
	for i := 1; i < len(victims); i++ {
		if earlier, later := when(victims[i-1]), when(victims[i]); !earlier.Before(later) {
			s.Errorf("pod %s was evicted at %v, before %s at %v", victims[i].Object.Name, later, victims[i-1].Object.Name, earlier)
		}
	}
}

// Conditions of the agent beside a kubelet that does not know its thresholds, and the kubelet's
// names for them.
const (
	memoryPressure corev1.NodeConditionType = "plimsoll.dev/MemoryPressure"
	diskPressure   corev1.NodeConditionType = "plimsoll.dev/DiskPressure"
	pidPressure    corev1.NodeConditionType = "plimsoll.dev/PIDPressure"
)

var pressures = []corev1.NodeConditionType{
	memoryPressure, diskPressure, pidPressure,
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// reported waits until the node has been under pressure in this scenario.
func (s *env) reported(kind corev1.NodeConditionType) {
	s.Helper()
	s.reportedSince(s.began, kind)
}

// reportedSince waits until the node has been under pressure since a time.
func (s *env) reportedSince(began time.Time, kind corev1.NodeConditionType) {
	s.Helper()
	s.until("the node was under "+string(kind), func() bool {
		return slices.ContainsFunc(s.rec.NodeStates(cluster.NodeName), func(n *recorder.Node) bool {
			return n.At.After(began) && n.Is(kind) == corev1.ConditionTrue
		})
	})
}

// relieved waits until all pressure has ended.
func (s *env) relieved() {
	s.Helper()
	s.until("the node is under no pressure", func() bool {
		for _, kind := range pressures {
			if s.node().Is(kind) == corev1.ConditionTrue {
				return false
			}
		}
		return len(s.node().Spec.Taints) == 0
	})
}

// checkOthersRun checks that none of the scenario's pods failed, however briefly, except those to
// be evicted. The remaining ones must still answer.
func (s *env) checkOthersRun() {
	s.Helper()
	for _, p := range *s.cast {
		uid := p.Object.UID
		if s.expectEvicted[uid] {
			s.staysEvicted(p)
			continue
		}
		for _, state := range s.rec.PodStates(uid) {
			if state.Status.Phase == corev1.PodFailed {
				s.Errorf("pod %s failed: %s: %s", p.Object.Name, state.Status.Reason, state.Status.Message)
				break
			}
		}
	}
}

// staysEvicted checks that the reported end of a pod is finally kept. For some hundred
// milliseconds a kubelet omits the reason, while it learns of the end.
func (s *env) staysEvicted(p *cluster.Pod) {
	s.Helper()
	states := s.rec.PodStates(p.Object.UID)
	if slices.ContainsFunc(states, evicted) && !evicted(states[len(states)-1]) {
		last := states[len(states)-1]
		s.Errorf("pod %s was evicted, and is now %s: %q", p.Object.Name, last.Status.Phase, last.Status.Reason)
	}
}
