package nodestatus_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/heartbeat"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

const (
	nodeName   = "ship"
	ownMemory  = "plimsoll.dev/MemoryPressure"
	memoryType = "MemoryPressure"
	ourTaint   = "plimsoll.dev/memory-pressure"
	// transition is short, so that a test observes the end of a condition.
	transition = 3 * time.Second
)

// env is an API server with an administrator and an agent. The agent has the rights of deploy/rbac
// and a connection with injected faults.
type env struct {
	t     *testing.T
	c     *cluster.Cluster
	name  string // of the node
	admin *kubernetes.Clientset
	agent *kubernetes.Clientset
	log   *slog.Logger
	text  *logcapture.Book
}

func startEnv(t *testing.T, o cluster.Options) *env {
	cluster.Need(t)
	c := cluster.Make(t, o)
	admin, err := c.Clients()
	r := &env{t: t, c: c, name: cluster.NodeName, admin: admin, text: &logcapture.Book{}}
	r.must(err)
	r.log = r.text.Logger()
	r.allow("agent.yaml")
	r.allow("agent-node-lease.yaml")
	token, err := c.Token(t.Context(), "plimsoll-system", "plimsoll-agent")
	r.must(err)
	r.agent, err = kubernetes.NewForConfig(c.Front.Config(c.Bearer(token)))
	r.must(err)
	return r
}

// startBare starts an API server with a node that no controller manages.
func startBare(t *testing.T) *env {
	r := startEnv(t, cluster.Options{Components: cluster.APIServer})
	r.name = nodeName
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}}}
	_, err := r.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	r.must(err)
	return r
}

func (r *env) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *env) allow(file string) {
	r.t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "deploy", "rbac", file))
	r.must(err)
	_, err = r.c.Kubectl(r.t.Context(), "apply", "-f", path)
	r.must(err)
}

// object reads the Node.
func (r *env) object() *corev1.Node {
	r.t.Helper()
	n, err := r.admin.CoreV1().Nodes().Get(r.t.Context(), r.name, metav1.GetOptions{})
	r.must(err)
	return n
}

func (r *env) tainted(key string) bool {
	r.t.Helper()
	return slices.ContainsFunc(r.object().Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func condition(n *corev1.Node, kind string) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if string(c.Type) == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// patience bounds each wait. It stands for no property: on a busy machine a request can take its
// 8 s, and its repetition waits as long again.
const patience = time.Minute

// await waits for a condition and returns the duration.
func (r *env) await(what string, done func() bool) time.Duration {
	r.t.Helper()
	begun, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(begun) > patience {
			r.t.Fatalf("not within %s: %s; the node is %v, the log\n%s", patience, what, r.object().Status.Conditions, r.text)
		}
		<-tick.C
	}
	return time.Since(begun)
}

func (r *env) awaitStatus(kind string, status corev1.ConditionStatus) time.Duration {
	r.t.Helper()
	return r.await(kind+" is "+string(status), func() bool { return condition(r.object(), kind).Status == status })
}

// patchStatus writes like another program, such as a kubelet.
func (r *env) patchStatus(patch string) {
	r.t.Helper()
	_, err := r.admin.CoreV1().Nodes().Patch(r.t.Context(), r.name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	r.must(err)
}

// running calls run in a goroutine until the test ends.
func (r *env) running(run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var all sync.WaitGroup
	all.Go(func() { run(ctx) })
	stop = func() { cancel(); all.Wait() }
	r.t.Cleanup(stop)
	return stop
}

func TestConditions_OnRealAPIServer(t *testing.T) {
	t.Parallel()
	r := startBare(t)
	var watched atomic.Pointer[corev1.Node] // an informer's view, as old as the test needs
	watched.Store(r.object())
	events := nodestatus.NewEvents(apitest.From(r.agent), nodeName, transition)
	defer events.Close()
	mode := atomic.Value{}
	mode.Store(nodestatus.Auto)
	lines := []kubeletconfig.Threshold{{Signal: signals.MemoryAvailable, Text: "1Gi", Amount: 1 << 30}}
	c := nodestatus.NewConditions(nodestatus.ConditionParts{
		Client: apitest.From(r.agent), NodeName: nodeName, Transition: transition, Taint: true, Events: events, Log: r.log,
		Node:  func() *corev1.Node { return watched.Load() },
		Owner: func(n *corev1.Node) nodestatus.Owners { return mode.Load().(nodestatus.Mode).Owners(n, nil, lines) },
	})
	r.running(c.Run)
	var pressure signals.ConditionSet
	pressure.Add(signals.MemoryPressure)
	crossings := nodestatus.Crossings{signals.MemoryPressure: {Met: true, Signal: signals.MemoryAvailable, Threshold: "1Gi", Available: 900 << 20}}

	// Without a kubelet the agent writes the standard types.
	c.Set(0, nodestatus.Crossings{})
	r.awaitStatus("PIDPressure", corev1.ConditionFalse)
	c.Set(pressure, crossings)
	t.Logf("True after %s", r.awaitStatus(memoryType, corev1.ConditionTrue))
	pressed := condition(r.object(), memoryType)
	if pressed.Reason != "KubeletHasInsufficientMemory" {
		t.Errorf("condition %v, want the kubelet's reason", pressed)
	}
	c.Set(0, nodestatus.Crossings{})
	t.Logf("False after %s", r.awaitStatus(memoryType, corev1.ConditionFalse))
	// The times of the condition are those of the writes. This process may have noticed True late.
	eased := condition(r.object(), memoryType)
	if lasted := eased.LastTransitionTime.Sub(pressed.LastTransitionTime.Time); lasted < transition {
		t.Errorf("cleared %s after the transition to True, want at least %s", lasted, transition)
	}

	// Another program writes them: the agent gives them up.
	watched.Store(r.object())
	now := time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	r.patchStatus(`{"status":{"conditions":[{"type":"MemoryPressure","status":"False","reason":"OtherWriter","lastHeartbeatTime":"` + now + `"}]}}`)
	watched.Store(r.object())
	c.Set(pressure, crossings)
	r.awaitStatus(ownMemory, corev1.ConditionTrue)
	if got := condition(r.object(), memoryType); got.Reason != "OtherWriter" || !strings.Contains(r.text.String(), "another program writes the condition MemoryPressure") {
		t.Errorf("overwritten, or given up without a log message: %v\n%s", got, r.text)
	}
	if got := condition(r.object(), ownMemory).Message; got != "memory.available is below its threshold: threshold 1Gi, available 900Mi" {
		t.Errorf("own condition with message %q", got)
	}

	r.mayTaint()
	r.failAndRecover(func() { c.Set(pressure, crossings) }, func() { c.Set(0, nodestatus.Crossings{}) })

	// After another program becomes the reporter, our types and the taint are removed.
	mode.Store(nodestatus.ModeKubelet)
	r.await("withdrawn", func() bool { return condition(r.object(), ownMemory).Type == "" })
	r.await("the taint is gone", func() bool { return !r.tainted(ourTaint) })
	if !r.tainted("team") {
		t.Error("a foreign taint was removed")
	}
	if got := condition(r.object(), memoryType).Reason; got != "OtherWriter" {
		t.Errorf("the other writer's condition was changed: %s", got)
	}
	r.showsPressure()
}

// mayTaint checks the behaviour without the right to write taints, then with it.
func (r *env) mayTaint() {
	r.t.Helper()
	r.await("the missing right is named", func() bool { return strings.Contains(r.text.String(), "right to patch nodes") })
	r.allow("agent-pressure-taint.yaml")
	r.await("the taint was added", func() bool { return r.tainted(ourTaint) })
	if !r.tainted("team") {
		r.t.Error("a foreign taint was removed")
	}
}

// failAndRecover injects every fault of the API server before the condition becomes False.
func (r *env) failAndRecover(press, ease func()) {
	r.t.Helper()
	for _, code := range []int{429, 409, 500} {
		r.c.Front.Answer(code, func(q *http.Request) bool { return strings.HasSuffix(q.URL.Path, "/status") })
		ease()
		r.await("refused write", func() bool { return r.c.Front.Answered(code) > 0 })
		r.c.Front.Forward()
		r.awaitStatus(ownMemory, corev1.ConditionFalse)
		press()
		r.awaitStatus(ownMemory, corev1.ConditionTrue)
	}
}

// showsPressure checks the output for an operator.
func (r *env) showsPressure() {
	r.t.Helper()
	list, err := r.admin.CoreV1().Events("default").List(r.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + nodeName})
	r.must(err)
	if len(list.Items) == 0 {
		r.t.Error("the node has no event")
	}
	output, err := r.c.Kubectl(r.t.Context(), "describe", "node", nodeName)
	r.must(err)
	if !strings.Contains(output, "NodeHasInsufficientMemory") {
		r.t.Errorf("kubectl describe does not show the pressure:\n%s", output)
	}
}

func TestLeases_OnRealAPIServer(t *testing.T) {
	t.Parallel()
	r := startBare(t)
	object := r.object()
	heart := heartbeat.New(heartbeat.Parts{
		Client: apitest.From(r.agent), NodeName: nodeName, Period: 10 * time.Second, Log: r.log,
		Node: func() *corev1.Node { return object }, Vitals: func() heartbeat.Vitals { return heartbeat.Vitals{Version: "v1"} },
	})
	heart.Beat(time.Now().Add(time.Hour)) // a check in the future, so that the test needs no further ones
	r.running(heart.Run)
	node := heartbeat.NewNodeLease(heartbeat.NodeLeaseParts{Client: apitest.From(r.agent), NodeName: nodeName, Log: r.log, Alive: heart.Alive,
		Node: func() *corev1.Node { return object }})
	ended := make(chan error, 1)
	r.running(func(ctx context.Context) { ended <- node.Run(ctx) })

	renewed := func(namespace string) (at time.Time) {
		l, err := r.admin.CoordinationV1().Leases(namespace).Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil || l.Spec.RenewTime == nil || len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != object.UID {
			return at
		}
		return l.Spec.RenewTime.Time
	}
	for _, namespace := range []string{heartbeat.Namespace, corev1.NamespaceNodeLease} {
		r.await("a lease in "+namespace, func() bool { return !renewed(namespace).IsZero() })
		first := renewed(namespace)
		r.await("its renewal", func() bool { return renewed(namespace).After(first) })
	}

	// After a write by another program the agent's lease is read again and renewed.
	_, err := r.admin.CoordinationV1().Leases(heartbeat.Namespace).Patch(t.Context(), nodeName, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"theirs":"x"}}}`), metav1.PatchOptions{})
	r.must(err)
	first := renewed(heartbeat.Namespace)
	r.await("a renewal after a conflict", func() bool { return renewed(heartbeat.Namespace).After(first) })

	// A kubelet starts and writes its lease before the informer receives the Node.
	r.patchStatus(`{"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"}}}`)
	_, err = r.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(t.Context(), nodeName, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kubelet":"here"}}}`), metav1.PatchOptions{})
	r.must(err)
	select {
	case err := <-ended:
		if !errors.Is(err, heartbeat.ErrKubelet) {
			t.Errorf("got %v, want ErrKubelet", err)
		}
	case <-time.After(patience):
		t.Error("the renewal did not end beside a kubelet")
	}
}
