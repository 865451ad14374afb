package whole

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll.dev/plimsoll/test/chronicle"
	"plimsoll.dev/plimsoll/test/cluster"
	"plimsoll.dev/plimsoll/test/hollow"
)

const (
	mib = 1 << 20
	// patience bounds the wait for one thing to happen.
	patience = 90 * time.Second
	// namespace is where Plimsoll lives.
	namespace = "plimsoll-system"
)

// A stage is the node with Plimsoll on it.
type stage struct {
	*testing.T
	*cluster.Cluster
	api  kubernetes.Interface // as the administrator
	book *chronicle.Book
	work string // a directory of the whole run
}

// raise starts everything but Plimsoll. A second node without a machine keeps
// the zone from being wholly disrupted when the first one is.
func raise(t *testing.T) *stage {
	t.Helper()
	cluster.Need(t)
	s := &stage{T: t, work: t.TempDir()}
	s.Cluster = cluster.Make(t, cluster.Options{Components: cluster.Everything, Node: cluster.NodeOptions{
		Memory: nodeMemory, Pids: nodePids, Tainted: true,
		Filesystem:    cluster.Filesystem{Size: 900 * mib, Inodes: 20000},
		KubeletConfig: kubeletConfig(t, s.work),
	}})
	clients, err := s.Clients()
	s.must(err)
	s.api = clients
	s.book, err = chronicle.Keep(context.WithoutCancel(t.Context()), s.api, nil)
	s.must(err)
	t.Cleanup(func() {
		if err := s.book.Close(); err != nil {
			t.Errorf("the book of what happened: %v", err)
		}
	})
	s.neighbour()
	return s
}

// neighbour adds the second node, which takes no pods.
func (s *stage) neighbour() {
	s.Helper()
	farm, err := hollow.Start(context.WithoutCancel(s.Context()), hollow.Options{Client: s.api, Renew: 2 * time.Second})
	s.must(err)
	s.Cleanup(farm.Close)
	_, err = farm.Add(s.Context(), "elsewhere", nil)
	s.must(err)
	_, err = s.Kubectl(s.Context(), "cordon", "elsewhere")
	s.must(err)
}

// What the node is made of, in bytes and tasks. Its kubelet measures the machine,
// so that it reserves all but what the pods may have together.
const (
	nodeMemory = 1536 * mib
	podsMemory = 1024 * mib
	nodePids   = 3000
)

// kubeletConfig has the kubelet evict below lines lower than the agent's, report
// often, and leave waste and local storage to the agent.
func kubeletConfig(t *testing.T, work string) map[string]any {
	t.Helper()
	static := filepath.Join(work, "static")
	if err := os.Mkdir(static, 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"staticPodPath":                 static,
		"kubeReserved":                  map[string]string{"memory": fmt.Sprint(machineMemory(t) - podsMemory)},
		"evictionHard":                  map[string]string{"allocatableMemory.available": "60Mi", "memory.available": "0%", "nodefs.available": "40Mi", "nodefs.inodesFree": "3%", "imagefs.available": "40Mi"},
		"nodeStatusUpdateFrequency":     "2s",
		"nodeStatusReportFrequency":     "5s",
		"nodeLeaseDurationSeconds":      8,
		"syncFrequency":                 "5s",
		"localStorageCapacityIsolation": false,
	}
}

func machineMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until waits until the chronicle says so.
func (s *stage) until(what string, so func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := s.book.Until(ctx, so); err != nil {
		s.Fatalf("not within %v: %s: %v", patience, what, err)
	}
}

func (s *stage) node() *chronicle.Node { return s.book.Node(cluster.NodeName) }

func TestSkeleton(t *testing.T) {
	s := raise(t)
	binary := filepath.Join(s.work, "plimsoll")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server, err := url.Parse(s.Admin().Host)
	s.must(err)
	text, err := os.ReadFile("testdata/hand.yaml")
	s.must(err)
	manifest := os.Expand(string(text), func(name string) string {
		return map[string]string{"CGROUP": s.Node.Cgroup, "SOCKET": s.Node.Socket, "ROOT": s.Node.KubeletRoot, "LOGS": s.Node.PodLogs,
			"KUBELET": s.Node.KubeletConfig, "PORT": server.Port(), "BINARY": binary, "DIR": s.Dir}[name]
	})
	file := filepath.Join(s.work, "hand.yaml")
	s.must(os.WriteFile(file, []byte(manifest), 0o600))
	for _, f := range []string{"../../deploy/rbac/agent.yaml", "../../deploy/rbac/controller.yaml", file} {
		_, err = s.Kubectl(t.Context(), "apply", "-f", f)
		s.must(err)
	}
	defer func() {
		for _, args := range [][]string{{"get", "nodes,pods", "-A", "-o", "wide"}, {"get", "events", "-A"}, {"logs", "-n", namespace, "ds/plimsoll-agent"}, {"logs", "-n", namespace, "deploy/plimsoll-controller"}, {"describe", "pods", "-n", namespace}, {"describe", "node", "localhost"}} {
			out, err := s.Kubectl(context.Background(), args...)
			t.Logf("%v\n%s\n%v", args, out, err)
		}
	}()
	s.until("the node is untainted", func() bool { return s.node() != nil && len(s.node().Spec.Taints) == 0 })
	greedy, err := s.api.CoreV1().Pods("default").Create(t.Context(), s.Node.Prepare(cluster.Hog("greedy", "fill 100MiB")), metav1.CreateOptions{})
	s.must(err)
	p, err := s.Node.AddPod(t.Context(), greedy)
	s.must(err)
	s.must(p.Order(t.Context(), "main", "fill 1GiB at 300MiB/s"))
	s.until("it is evicted", func() bool { return s.book.Pod(greedy.UID).Status.Phase == corev1.PodFailed })
	s.until("condition", func() bool { return s.node().Is("plimsoll.dev/MemoryPressure") == "True" })
	s.until("condition", func() bool { return s.node().Is("plimsoll.dev/MemoryPressure") == "False" })
}
