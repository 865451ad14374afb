package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/statefile"
)

// history records the values of a condition from a watch.
type history struct {
	mu      sync.Mutex
	changes []corev1.NodeCondition
}

// watch records a condition of the Node until the test ends.
func (s *env) watch(kind corev1.NodeConditionType) *history {
	s.t.Helper()
	watch, err := s.API.CoreV1().Nodes().Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + cluster.NodeName})
	s.must(err)
	s.t.Cleanup(watch.Stop)
	h := &history{}
	go func() {
		for e := range watch.ResultChan() {
			if n, is := e.Object.(*corev1.Node); is {
				h.note(n, kind)
			}
		}
	}()
	return h
}

func (h *history) note(n *corev1.Node, kind corev1.NodeConditionType) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range n.Status.Conditions {
		last := len(h.changes) - 1
		if c.Type == kind && (last < 0 || h.changes[last].Status != c.Status || h.changes[last].LastTransitionTime != c.LastTransitionTime) {
			h.changes = append(h.changes, c)
		}
	}
}

// statuses returns the values of the condition in order.
func (h *history) statuses() (values []corev1.ConditionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.changes {
		values = append(values, c.Status)
	}
	return values
}

// is reports whether the condition had exactly these values.
func (h *history) is(values ...corev1.ConditionStatus) func() bool {
	return func() bool { return slices.Equal(h.statuses(), values) }
}

// renewed returns the time of the last renewal of a node's lease in a namespace.
func (s *env) renewed(namespace string) time.Time {
	s.t.Helper()
	lease, err := s.API.CoordinationV1().Leases(namespace).Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// free returns an unused address. It stays unused between two agents.
func free(t *testing.T) string {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port
}

// TestConditions_WithoutKubelet covers repeated memory pressure while the agent is
// killed and restarted. The Node reports pressure all the time, and reports its end afterwards.
func TestConditions_WithoutKubelet(t *testing.T) {
	t.Parallel()
	// Longer than the pauses between two dips, also on a slow machine; rounds last longer.
	const transition, rounds = 25 * time.Second, 8
	s := newEnv(t, withoutKubelet(cluster.NodeOptions{}), "agent-node-lease.yaml")
	heavy, pressure := s.add(ballast("fill 330MiB")), s.watch(corev1.NodeMemoryPressure)
	address := free(t)
	flags := []string{"--eviction-pressure-transition-period=" + transition.String(), "--report-node-lease", "--healthz-bind-address=" + address}
	a := s.start(flags...)
	s.until("no pressure is reported", pressure.is(corev1.ConditionFalse))
	s.healthy(address)
	s.must(heavy.Do(t.Context(), "fill 100MiB"))
	s.until("pressure is reported", pressure.is(corev1.ConditionFalse, corev1.ConditionTrue))
	s.must(heavy.Do(t.Context(), "release"))
	s.must(heavy.Do(t.Context(), "fill 330MiB"))
	var over time.Time
	for round := range rounds {
		s.must(heavy.Do(t.Context(), "dip 120MiB for 2s"))
		over = time.Now()
		if round == rounds/2 {
			s.must(a.Kill())
			a = s.start(flags...)
		}
		s.must(heavy.Do(t.Context(), "dip 1MiB for 3s"))
		if !pressure.is(corev1.ConditionFalse, corev1.ConditionTrue)() {
			t.Fatalf("got statuses %v", pressure.statuses())
		}
	}
	s.annotated("MemoryPressure")
	for _, namespace := range []string{"plimsoll-system", corev1.NamespaceNodeLease} {
		s.until("the lease in "+namespace+" is renewed", func() bool { return s.renewed(namespace).After(over) })
	}
	s.until("the end of the pressure is reported", pressure.is(corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionFalse))
	s.endedAfter(transition, pressure)
	s.running(heavy)
	s.nodeEvents("NodeHasInsufficientMemory", "NodeHasSufficientMemory")
	greedy := s.add(cluster.Hog("greedy"))
	s.knows(greedy)
	for len(a.Decisions) > 0 { // about the pod that can not be evicted
		<-a.Decisions
	}
	s.order(greedy, "fill 130MiB at 200MiB/s") // beside the 330 MiB of the other pod, about 45 MiB are left
	s.evicts(a, greedy, "memory")
	s.counted(address)
}

// endedAfter checks that the condition became False no earlier than a transition period after the agent last observed
// its threshold as met. The API stores whole seconds.
func (s *env) endedAfter(transition time.Duration, h *history) {
	s.t.Helper()
	var lastMet time.Time
	s.until("the saved condition is False", func() bool {
		c, saved := s.savedCondition("MemoryPressure")
		lastMet = c.LastMet
		return saved && !c.True
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.changes[len(h.changes)-1]
	if earliest := lastMet.Add(transition).Truncate(time.Second); last.LastTransitionTime.Time.Before(earliest) {
		s.t.Errorf("the threshold was last met at %s, and pressure is %s since %s", lastMet, last.Status, last.LastTransitionTime)
	}
}

// savedCondition returns a condition of the agent's state file.
func (s *env) savedCondition(name string) (c eviction.SavedCondition, saved bool) {
	s.t.Helper()
	decisions, err := statefile.Decisions(s.state)
	s.must(err)
	if i := slices.IndexFunc(decisions.Conditions, func(c eviction.SavedCondition) bool { return c.Condition == name }); i >= 0 {
		return decisions.Conditions[i], true
	}
	return c, false
}

// healthy waits until all the agent's checks of health succeed.
func (s *env) healthy(address string) {
	s.t.Helper()
	for _, path := range []string{"/readyz", "/livez"} {
		s.until(path+" is ok", func() bool { return s.page(address, path) == "ok" })
	}
	for _, want := range []string{"[+]memory ok", "[+]pods ok", "[+]api-server ok", "[+]runtime ok"} {
		s.until("/readyz?verbose contains "+want, func() bool { return strings.Contains(s.page(address, "/readyz?verbose"), want) })
	}
}

// annotated checks the conditions that the agent's lease reports to a controller.
func (s *env) annotated(conditions string) {
	s.t.Helper()
	lease, err := s.API.CoordinationV1().Leases("plimsoll-system").Get(s.t.Context(), cluster.NodeName, metav1.GetOptions{})
	s.must(err)
	check, err := time.Parse(time.RFC3339, lease.Annotations["plimsoll.dev/last-check"])
	if err != nil || lease.Spec.RenewTime.Sub(check) > 2*heartbeat.RenewPeriod || lease.Annotations["plimsoll.dev/conditions"] != conditions || lease.Annotations["plimsoll.dev/dry-run"] != "false" {
		s.t.Errorf("got heartbeat %v (%v)", lease.Annotations, err)
	}
}

// nodeEvents checks for events of the Node with these reasons.
func (s *env) nodeEvents(reasons ...string) {
	s.t.Helper()
	for _, reason := range reasons {
		s.until("an event "+reason, func() bool {
			list, err := s.API.CoreV1().Events(metav1.NamespaceDefault).List(s.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=" + reason})
			s.must(err)
			return len(list.Items) > 0
		})
	}
}

// counted checks the metrics of one eviction, and that every documented metric is served.
func (s *env) counted(address string) {
	s.t.Helper()
	// The decision is logged at the kill. The last process ends later.
	var text string
	s.until("the end of the pod's last process is counted", func() bool {
		text = s.page(address, "/metrics")
		return strings.Contains(text, "plimsoll_eviction_exit_duration_seconds_count 1\n")
	})
	for _, want := range []string{
		`plimsoll_evictions{eviction_signal="memory.available"} 1`, `plimsoll_condition{condition="MemoryPressure"} 1`,
		`plimsoll_threshold_to_kill_duration_seconds_count 1`,
		`plimsoll_eviction_stats_age_seconds_count{eviction_signal="memory.available"} 1`, `plimsoll_signal_unknown{signal="memory.available"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			s.t.Errorf("/metrics lacks %q:\n%s", want, text)
		}
	}
	reference, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	s.must(err)
	ofAgent, _, _ := strings.Cut(string(reference), "\n## The controller\n")
	rows := documentedMetric.FindAllStringSubmatch(ofAgent, -1)
	for _, row := range rows {
		// Which notifications there are depends on the kernel, and this agent records nothing.
		if row[1] != "plimsoll_notification_source" && !strings.HasPrefix(row[1], "plimsoll_recording_") && !strings.Contains(text, "\n# TYPE "+row[1]+" "+row[2]+"\n") {
			s.t.Errorf("/metrics lacks %s, a documented %s", row[1], row[2])
		}
	}
	if len(rows) < 20 {
		s.t.Errorf("found %d metrics in the reference, want at least 20", len(rows))
	}
}

// documentedMetric matches a row of docs/reference/metrics.md: the name and the kind.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\|")
