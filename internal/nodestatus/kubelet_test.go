package nodestatus_test

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// watchedFor is the time in which no condition may flap beside a real kubelet, which computes its
// conditions every ten seconds.
const watchedFor = time.Minute

// flips watches the node and returns the number of changes of each condition.
func (r *env) flips(during time.Duration) map[string]int {
	r.t.Helper()
	watch, err := r.admin.CoreV1().Nodes().Watch(r.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + r.name})
	r.must(err)
	defer watch.Stop()
	flips, last := map[string]int{}, map[string]corev1.ConditionStatus{}
	for end := time.After(during); ; {
		select {
		case <-end:
			return flips
		case event := <-watch.ResultChan():
			n, ok := event.Object.(*corev1.Node)
			if !ok {
				r.t.Fatalf("unexpected watch event %v", event)
			}
			for _, c := range n.Status.Conditions {
				kind := string(c.Type)
				if before, known := last[kind]; known && before != c.Status {
					flips[kind]++
				}
				last[kind] = c.Status
			}
		}
	}
}

// TestConditions_StableBesideRealKubelet uses a writer beside a kubelet with a soft threshold for
// memory at the agent's line and none for disks.
func TestConditions_StableBesideRealKubelet(t *testing.T) {
	t.Parallel()
	const always = "100000Gi" // more than any machine has: the kubelet reports memory pressure from the start
	r := startEnv(t, cluster.Options{Components: cluster.Kubelet, Node: cluster.NodeOptions{KubeletConfig: map[string]any{
		"evictionSoft":            map[string]string{"memory.available": always},
		"evictionSoftGracePeriod": map[string]string{"memory.available": "8760h"},
	}}})
	text, err := os.ReadFile(r.c.Node.KubeletConfig)
	r.must(err)
	kubelet, err := kubeletconfig.Read(text)
	r.must(err)
	lines := []kubeletconfig.Threshold{
		{Signal: signals.MemoryAvailable, Text: always, Amount: 100000 << 30},
		{Signal: signals.NodefsAvailable, Text: "10%", Percent: 10},
		{Signal: signals.PIDAvailable, Text: "1k", Amount: 1000},
	}
	owners := nodestatus.Detect(r.object(), &kubelet, lines)
	if want := (nodestatus.Owners{signals.DiskPressure: nodestatus.OwnTypes, signals.PIDPressure: nodestatus.OwnTypes}); owners != want {
		t.Fatalf("owners %v, want %v", owners, want)
	}
	owners[signals.PIDPressure] = nodestatus.StandardTypes // deliberately wrong: the writer has to give it up

	c := nodestatus.NewConditions(nodestatus.ConditionParts{Client: apitest.From(r.agent), NodeName: r.name, Transition: transition, Log: r.log,
		Owner: func(*corev1.Node) nodestatus.Owners { return owners }})
	r.running(c.Run)
	var all signals.ConditionSet
	for condition := range signals.Condition(signals.ConditionCount) {
		all.Add(condition)
	}
	c.Set(all, nodestatus.Crossings{})

	r.awaitStatus(memoryType, corev1.ConditionTrue)
	r.awaitStatus("plimsoll.dev/DiskPressure", corev1.ConditionTrue)
	t.Logf("PIDPressure given up after %s", r.awaitStatus("plimsoll.dev/PIDPressure", corev1.ConditionTrue))
	if !strings.Contains(r.text.String(), "another program writes the condition PIDPressure") {
		t.Errorf("given up without a log message: %s", r.text)
	}
	if flips := r.flips(watchedFor); len(flips) > 0 {
		t.Errorf("changes within %s: %v", watchedFor, flips)
	}
	n := r.object()
	if got := condition(n, memoryType); got.Status != corev1.ConditionTrue || condition(n, ownMemory).Type != "" {
		t.Errorf("MemoryPressure is not reported by the kubelet alone: %v", n.Status.Conditions)
	}
	if got := condition(n, "DiskPressure"); got.Status != corev1.ConditionFalse {
		t.Errorf("the kubelet's DiskPressure was changed: %v", got)
	}
	c.Set(0, nodestatus.Crossings{})
	r.awaitStatus("plimsoll.dev/DiskPressure", corev1.ConditionFalse)

	lease := heartbeat.NewNodeLease(heartbeat.NodeLeaseParts{Client: apitest.From(r.agent), NodeName: r.name, Log: r.log,
		Node: func() *corev1.Node { return nil }, Alive: func(time.Time) error { return nil }})
	if err := lease.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "renew the lease of node "+r.name) {
		t.Errorf("the lease of a node with a kubelet was renewed: %v", err)
	}
}
