package stats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/ranking"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// loads are the pods of the node. Every signal gives a different order.
var loads = []struct {
	name      string
	memory    int // MiB
	processes int // besides the first
}{{"a", 8, 19}, {"b", 150, 4}, {"c", 60, 30}, {"d", 100, 0}, {"e", 24, 9}, {"f", 220, 1}}

const (
	byMemory    = "f b d c e a"
	byProcesses = "c a e b f d"
)

// loadedNode returns a real containerd that runs the loads.
func loadedNode(ctx context.Context, t *testing.T) (*cluster.Node, []signals.Pod) {
	t.Helper()
	n := cluster.Make(t, cluster.Options{Components: cluster.Containerd}).Node
	var pods []signals.Pod
	for _, l := range loads {
		p, err := n.AddPod(ctx, cluster.Hog(l.name))
		if err == nil {
			err = p.Do(ctx, fmt.Sprintf("fill %dMiB", l.memory))
		}
		if err == nil && l.processes > 0 {
			err = p.Do(ctx, fmt.Sprintf("fork %d", l.processes))
		}
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, signals.Pod{UID: p.UID(), Name: l.name, Containers: []signals.Container{{Name: "main", ID: p.Containers["main"]}}})
	}
	return n, pods
}

func order(candidates []signals.Candidate, s signals.Signal) string {
	var names []string
	for _, r := range ranking.Rank(candidates, s, 0) {
		names = append(names, r.Pod.Name)
	}
	return strings.Join(names, " ")
}

func checkOrders(t *testing.T, provider string, candidates []signals.Candidate) {
	t.Helper()
	if got := order(slices.Clone(candidates), signals.MemoryAvailable); got != byMemory {
		t.Errorf("%s ranks by memory %s, want %s", provider, got, byMemory)
	}
	if got := order(slices.Clone(candidates), signals.PIDAvailable); got != byProcesses {
		t.Errorf("%s ranks by processes %s, want %s", provider, got, byProcesses)
	}
}

// TestProviders_RankAlike checks that every provider gives the same ranking of a node, and the
// CRI provider also after the runtime has stopped answering.
func TestProviders_RankAlike(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	n, pods := loadedNode(ctx, t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	files := OpenPods(h, n.Cgroup)
	defer files.Close()
	runtime, err := cri.Open(cri.Options{Endpoint: n.Socket})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Close() }()
	capacity, err := MachineMemory("/proc")
	if err != nil {
		t.Fatal(err)
	}
	byRuntime := OpenCRI(runtime, Sampling{Capacity: capacity})
	defer byRuntime.Close()
	byCAdvisor, err := OpenCAdvisor(n.Cgroup, Sampling{Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	defer byCAdvisor.Close()

	want := files.Measure(pods, nil)
	for provider, p := range map[string]Provider{"cgroup": files, "cri": byRuntime, "cadvisor": byCAdvisor} {
		got := awaitSample(t, p, pods, time.Time{})
		if p.Err() != nil {
			t.Errorf("%s: %v", provider, p.Err())
		}
		checkOrders(t, provider, got)
		for i := range got {
			expectSimilar(t, provider, got[i], want[i])
			if c := got[i].Usage.Container(&pods[i].Containers[0]); c == nil || !c.Memory.Known {
				t.Errorf("%s: %s: the container's memory is unknown: %+v", provider, pods[i].Name, got[i].Usage.Containers)
			}
		}
	}
	if got, want := processes(byCAdvisor.Measure(pods, nil)), processes(files.Measure(pods, nil)); !slices.Equal(got, want) {
		t.Errorf("cAdvisor counts %v processes, the cgroup files have %v", got, want)
	}

	fast := OpenCRI(runtime, Sampling{Period: 500 * time.Millisecond, Fallback: files})
	defer fast.Close()
	awaitSample(t, fast, pods, time.Time{})
	if err := n.Containerd.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "the runtime is unavailable", func() bool { // a sample before may have timed out
		fast.Measure(pods, nil)
		return errors.Is(fast.Err(), cri.ErrUnavailable)
	})
	got := awaitSample(t, fast, pods, time.Now()) // by the fallback
	checkOrders(t, "cri without a runtime", got)
}

func processes(candidates []signals.Candidate) (counts []signals.PIDs) {
	for _, c := range candidates {
		counts = append(counts, c.Usage.Processes.Value)
	}
	return counts
}
