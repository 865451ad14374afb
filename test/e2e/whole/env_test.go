package whole

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/hollow"
	"plimsoll.dev/plimsoll/test/harness/recorder"
)

const (
	mib = 1 << 20
)

// patience bounds every wait.
var patience = cluster.Patience(90 * time.Second)

// heartbeat is the interval of the kubelet's status and of leases. It is also the kubelet's timeout
// for these requests, which take seconds on an emulated processor.
var heartbeat = cluster.Patience(2 * time.Second)

// beat returns the duration of n heartbeats.
func beat(n time.Duration) string { return (n * heartbeat).String() }

// seconds returns the period of work that uses processor time, longer on an emulated processor: with periods of a
// second, measurements alone would take a whole one.
func seconds(n time.Duration) string { return cluster.Patience(n * time.Second).String() }

// The node's resources, in bytes, tasks and inodes. Its kubelet measures the machine, so it
// reserves everything beyond the pods' share.
const (
	nodeMemory = 1536 * mib
	podsMemory = 1024 * mib
	nodePids   = 3000
	nodeDisk   = 900 * mib
	nodeInodes = 10000
)

// env is the node with Plimsoll on it.
type env struct {
	testing.TB
	*cluster.Cluster
	api     kubernetes.Interface // as the administrator
	rec     *recorder.Recorder
	others  *hollow.Farm // nodes without a machine
	release *release
	static  string // the kubelet's directory of manifests

	// Of a scenario: its begin, its pods, and the pods that must be evicted.
	began         time.Time
	cast          *[]*cluster.Pod
	expectEvicted map[types.UID]bool
}

// newEnv starts everything except Plimsoll; the audit may be nil. A second node, without a
// machine, keeps the zone from being fully disrupted when the first one is.
func newEnv(t testing.TB, audit *recorder.Audit) *env {
	t.Helper()
	cluster.Need(t)
	s := &env{TB: t, static: t.TempDir(), expectEvicted: map[types.UID]bool{}, cast: &[]*cluster.Pod{}}
	o := cluster.Options{Components: cluster.Everything, Node: cluster.NodeOptions{
		Memory: nodeMemory, Pids: nodePids, Tainted: true,
		Filesystem:    cluster.Filesystem{Size: nodeDisk, Inodes: nodeInodes},
		KubeletConfig: s.kubeletConfig(),
	}}
	if audit != nil {
		o.Args = map[cluster.Components][]string{cluster.APIServer: audit.Flags()}
	}
	s.Cluster = cluster.Make(t, o)
	clients, err := s.Clients()
	s.must(err)
	s.api = clients
	s.rec, err = recorder.Start(context.WithoutCancel(t.Context()), s.api, audit)
	s.must(err)
	t.Cleanup(func() {
		if err := s.rec.Close(); err != nil {
			t.Errorf("the book of what happened: %v", err)
		}
	})
	s.secondNode()
	s.priorities()
	return s
}

// secondNode adds the second node, which gets no pods.
func (s *env) secondNode() {
	s.Helper()
	var err error
	s.others, err = hollow.Start(context.WithoutCancel(s.Context()), hollow.Options{Client: s.api, Renew: 2 * time.Second})
	s.must(err)
	s.Cleanup(s.others.Close)
	_, err = s.others.Add(s.Context(), "elsewhere", nil)
	s.must(err)
	_, err = s.Kubectl(s.Context(), "cordon", "elsewhere")
	s.must(err)
}

// Priority classes of otherwise equal pods.
const (
	lowPriority  = "low"
	highPriority = "high"
	topPriority  = "top"
)

func (s *env) priorities() {
	s.Helper()
	for name, value := range map[string]int32{lowPriority: 10, highPriority: 1000, topPriority: 100_000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		_, err := s.api.SchedulingV1().PriorityClasses().Create(s.Context(), class, metav1.CreateOptions{})
		s.must(err)
	}
}

// kubeletThreshold is the kubelet's for the memory of pods.
const kubeletThreshold = "60Mi"

// backstop is the kubelet's thresholds, below all of the agent's.
var backstop = map[string]string{
	"allocatableMemory.available": kubeletThreshold, "memory.available": "0%",
	"nodefs.available": "40Mi", "nodefs.inodesFree": "3%", "imagefs.available": "40Mi",
}

// kubeletConfig makes the kubelet report often and act as the backstop.
func (s *env) kubeletConfig() map[string]any {
	s.Helper()
	return map[string]any{
		"staticPodPath": s.static, "fileCheckFrequency": seconds(1), "syncFrequency": seconds(5),
		"kubeReserved":              map[string]string{"memory": fmt.Sprint(s.machineMemory() - podsMemory)},
		"evictionHard":              backstop,
		"nodeStatusUpdateFrequency": beat(1),
		"nodeStatusReportFrequency": beat(2),
		"nodeLeaseDurationSeconds":  int(4 * heartbeat / time.Second),
	}
}

func (s *env) machineMemory() int64 {
	s.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	s.must(err)
	var kib int64
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &kib)
	s.must(err)
	return kib << 10
}

func (s *env) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until waits until the record meets a condition.
func (s *env) until(what string, so func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.rec.Until(ctx, so); err != nil {
		s.Fatalf("not within %v: %s: %v", patience, what, err)
	}
}

// poll waits for a condition outside of the record.
func (s *env) poll(what string, so func() bool) {
	s.Helper()
	cluster.Poll(s, patience, what, so)
}

// node returns the last state of the node with a machine.
func (s *env) node() *recorder.Node { return s.rec.Node(cluster.NodeName) }

// free returns the free bytes and inodes of the node's disk.
func (s *env) free() (bytes, inodes int64) {
	s.Helper()
	bytes, inodes, err := s.Node.Free()
	s.must(err)
	return bytes, inodes
}

// show returns kubectl's output for human readers.
func (s *env) show(args ...string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	output, err := s.Kubectl(ctx, args...)
	if err != nil {
		return err.Error()
	}
	return output
}

// picture logs an operator's view, for docs/how-to/install.md.
func (s *env) picture(when string) {
	s.Helper()
	if !testing.Verbose() {
		return
	}
	conditions := `{range .status.conditions[*]}{.type}={.status} {end}{.spec.taints[*].key}`
	for _, args := range [][]string{
		{"get", "nodes"}, {"get", "pods", "--all-namespaces"},
		{"get", "events", "--field-selector=reason!=Pulled,reason!=Created", "--sort-by=.lastTimestamp"},
		{"get", "node", cluster.NodeName, "--output=jsonpath=" + conditions},
	} {
		s.Logf("%s: kubectl %s\n%s", when, strings.Join(args, " "), s.show(args...))
	}
}

// evicted reports whether a pod is Failed as evicted.
func evicted(p *recorder.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted"
}
