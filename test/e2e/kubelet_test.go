package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/test/cluster"
)

// withKubelet is a node with a kubelet that evicts nobody unless it is told to.
func withKubelet(config map[string]any) cluster.Options {
	return cluster.Options{Components: cluster.APIServer | cluster.Containerd | cluster.Kubelet,
		Node: cluster.NodeOptions{Memory: 768 * mib, KubeletConfig: config}}
}

// evictions is how many immediate evictions are tried: a few in every run of the
// tests, 100 for the figures in docs/performance.md (make bench-evictions).
func evictions(t *testing.T) int {
	text := os.Getenv("EVICTIONS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("EVICTIONS=%s: not a number of evictions", text)
	}
	return n
}

// always is a pod that a kubelet starts again whenever it ends.
func always(name string) *corev1.Pod {
	pod := cluster.Hog(name, "fill 8MiB")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return pod
}

// ahead is how many pods run before the first is evicted. A kubelet that
// synchronises a pod between its status and its death forgets the reason
// (docs/decisions/017), which it does within its first seconds above all.
const ahead = 8

// Told first and killed at once, a pod is evicted for good: its kubelet keeps
// phase, reason and message, and starts nothing again.
func TestImmediateEvictionsBesideAKubelet(t *testing.T) {
	s := set(t, withKubelet(nil))
	s.evictedStaysEvicted()
	a := s.start("--eviction-hard=memory.available<150Mi")
	held := always("calm") // most of what the node has, and all that it asked for
	held.Spec.Containers[0].Resources = cluster.Ask(400*mib, 600*mib)
	calm := s.add(held)
	if err := calm.Do(t.Context(), "fill 340MiB"); err != nil {
		t.Fatal(err)
	}
	n := evictions(t)
	messages := map[string]string{} // by name
	var waiting, done []*cluster.Pod
	var toDead []float64
	told := 0 // before the kill
	for i := range n + ahead {
		if i < n {
			waiting = append(waiting, s.add(always(fmt.Sprintf("greedy-%d", i))))
		}
		if i < ahead {
			continue
		}
		p := waiting[0]
		waiting, done = waiting[1:], append(done, p)
		if err := p.Order(t.Context(), "main", "fill 1GiB at 200MiB/s"); err != nil {
			t.Fatal(err)
		}
		d := s.await(a, agent.Evicted, agent.Failed)
		if d.Pod != "default/"+p.Object.Name || d.ToEmpty == nil {
			t.Fatalf("eviction %d: %+v", i-ahead, d)
		}
		if d.Status == agent.StatusTold {
			told++
		}
		toDead, messages[p.Object.Name] = append(toDead, *d.ToEmpty), d.Message
	}
	s.settled(done)
	for _, p := range done {
		got := s.get(p)
		evicted(t, got, messages[got.Name])
		if events := s.events(p, "Evicted"); len(events) != 1 {
			t.Errorf("pod %s: %d events", got.Name, len(events))
		}
	}
	s.notRestarted(done)
	s.running(calm)
	slices.Sort(toDead)
	t.Logf("%d evictions, %d told before the kill, from the look to the last process dead: median %.1f ms, worst %.1f ms", n, told, toDead[n/2], toDead[n-1])
}

// evictedStaysEvicted applies the policy of that name, and waits until it holds.
func (s *stage) evictedStaysEvicted() {
	s.t.Helper()
	s.apply(filepath.Join("..", "..", "deploy", "admission", "evicted-stays-evicted.yaml"))
	probe := cluster.Hog("probe")
	probe.Spec.SchedulerName = "nobody"
	pods := s.API.CoreV1().Pods("default")
	if _, err := pods.Create(s.t.Context(), probe, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	patch := func(status string) error {
		_, err := pods.Patch(s.t.Context(), "probe", types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
		return err
	}
	s.until("an evicted pod can not be said to run", func() bool {
		if err := patch(`{"phase":"Failed","reason":"Evicted"}`); err != nil {
			s.t.Fatal(err)
		}
		return apierrors.IsForbidden(patch(`{"phase":"Running","reason":""}`))
	})
	if err := patch(`{"message":"still Failed"}`); err != nil {
		s.t.Errorf("a status that stays Failed is refused: %v", err)
	}
	if err := pods.Delete(s.t.Context(), "probe", metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until the kubelet has told of every pod's end, and had the time
// to change its mind: its status is synchronised every 10 s.
func (s *stage) settled(pods []*cluster.Pod) {
	s.t.Helper()
	s.until("the runtime runs none of their containers", func() bool {
		return !slices.ContainsFunc(s.containersOf(pods), func(c *runtimeapi.Container) bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING })
	})
	watch, err := s.API.CoreV1().Pods(metav1.NamespaceAll).Watch(s.t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + cluster.NodeName})
	if err != nil {
		s.t.Fatal(err)
	}
	defer watch.Stop()
	quiet := time.NewTimer(12 * time.Second)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			return
		case e := <-watch.ResultChan():
			if p, is := e.Object.(*corev1.Pod); is && slices.ContainsFunc(pods, func(of *cluster.Pod) bool { return of.Object.UID == p.UID }) && p.Status.Phase != corev1.PodFailed {
				s.t.Errorf("pod %s went back to phase %s", p.Name, p.Status.Phase)
			}
		}
	}
}

// containersOf are those of the pods in the runtime, dead ones too.
func (s *stage) containersOf(pods []*cluster.Pod) (found []*runtimeapi.Container) {
	s.t.Helper()
	all, err := s.Node.Runtime.ListContainers(s.t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range all.Containers {
		if slices.ContainsFunc(pods, func(p *cluster.Pod) bool { return p.UID() == c.Labels["io.kubernetes.pod.uid"] }) {
			found = append(found, c)
		}
	}
	return found
}

// notRestarted asks runtime and API server. What the latter says of the first
// container may be old: a kubelet removes the containers of an evicted pod at
// once, sometimes before it has seen how they ended.
func (s *stage) notRestarted(pods []*cluster.Pod) {
	s.t.Helper()
	for _, c := range s.containersOf(pods) {
		if c.Metadata.Attempt != 0 {
			s.t.Errorf("container %s of pod %s was started again: %+v", c.Metadata.Name, c.Labels["io.kubernetes.pod.name"], c)
		}
	}
	for _, p := range pods {
		for _, c := range s.get(p).Status.ContainerStatuses {
			if c.RestartCount != 0 {
				s.t.Errorf("container %s of pod %s was started again: %+v", c.Name, p.Object.Name, c)
			}
		}
	}
}
