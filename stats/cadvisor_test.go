package stats

import (
	"math"
	"testing"
	"time"

	v1 "github.com/google/cadvisor/info/v1"
	v2 "github.com/google/cadvisor/info/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// infoOf returns cAdvisor's report of one cgroup.
func infoOf(usage, workingSet, processes uint64) v2.ContainerInfo {
	return v2.ContainerInfo{Stats: []*v2.ContainerStats{{
		Timestamp: noon, Memory: &v1.MemoryStats{Usage: usage, WorkingSet: workingSet}, Processes: &v1.ProcessStats{ProcessCount: processes},
	}}}
}

func TestUsagesOfCgroups_AddsUpProcessesOfPod(t *testing.T) {
	const pods, slice = "/node/kubepods/burstable/pod", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"
	infos := map[string]v2.ContainerInfo{
		"/": {}, "/node/kubepods": infoOf(9, 9, 0), "/node/kubepods/burstable": infoOf(9, 9, 0),
		pods + "plain": infoOf(10, 8, 0), pods + "plain/app": infoOf(6, 5, 2), pods + "plain/app/init.scope": infoOf(1, 1, 3), pods + "plain/side": infoOf(4, 3, 1),
		slice + "with_dash.slice": infoOf(7, 6, 0), slice + "with_dash.slice/cri-containerd-0123.scope": infoOf(7, 6, 1),
		pods + "empty":  infoOf(4096, 4096, 0),
		pods + "unread": infoOf(0, 0, 0), pods + "unread/app": infoOf(0, 0, 2),
		pods + "new": infoOf(10, 8, 1), pods + "new/app": {},
		pods + "negative": infoOf(math.MaxUint64, math.MaxUint64, math.MaxUint64),
		pods + "bare":     {Stats: []*v2.ContainerStats{{Timestamp: noon}}},
		pods + "late/app": infoOf(1, 1, 1), // the pod's own cgroup is not known yet
	}
	none := signals.Measured[signals.Bytes]{}
	container := func(name string, m signals.Measured[signals.Bytes]) signals.ContainerUsage {
		return signals.ContainerUsage{Name: name, Memory: m}
	}
	want := map[string]signals.Usage{
		"plain": {Time: noon, Memory: memoryOf(8), Processes: signals.Of[signals.PIDs](6),
			Containers: []signals.ContainerUsage{container("app", memoryOf(5)), container("side", memoryOf(3))}},
		"with-dash": {Time: noon, Memory: memoryOf(6), Processes: signals.Of[signals.PIDs](1), Containers: []signals.ContainerUsage{container("0123", memoryOf(6))}},
		"empty":     {Time: noon, Memory: memoryOf(4096)},
		"unread":    {Time: noon, Processes: signals.Of[signals.PIDs](2), Containers: []signals.ContainerUsage{container("app", none)}},
		"new":       {Time: noon, Memory: memoryOf(8), Containers: []signals.ContainerUsage{container("app", none)}},
		"negative":  {Time: noon},
		"bare":      {Time: noon},
		"late":      {Processes: signals.Of[signals.PIDs](1), Containers: []signals.ContainerUsage{container("app", memoryOf(1))}},
	}
	byName := cmpopts.SortSlices(func(a, b signals.ContainerUsage) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, usagesOfCgroups(infos), byName); diff != "" {
		t.Error(diff)
	}
}

func TestPodRoots_CoversBothDrivers(t *testing.T) {
	for node, want := range map[string][]string{
		"/": {"/kubepods"}, "": {"/kubepods"}, "/a/node": {"/a/node/kubepods"},
		"/a.slice": {"/a.slice/kubepods", "/a.slice/a-kubepods"},
	} {
		if diff := cmp.Diff(want, podRoots(node)); diff != "" {
			t.Errorf("%q: %s", node, diff)
		}
	}
}

// TestCAdvisor_AgreesWithCgroups checks that cAdvisor and the cgroup files agree on pods that
// exist at start and on a later one. Processes are unknown where cAdvisor has no cpu
// controller.
func TestCAdvisor_AgreesWithCgroups(t *testing.T) {
	box := sandboxNode(t)
	first := addPod(t, box, "first", sandbox.Burstable, "app", "side")
	box.Run(t, first, "app", "fill 48MiB")
	c, err := OpenCAdvisor(box.Path(), Sampling{Period: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	defer p.Close()
	second := addPod(t, box, "second", sandbox.Burstable, "app")
	box.Run(t, second, "app", "fill 24MiB", "fork 1", "fork 1")
	pods := []signals.Pod{{UID: "first"}, {UID: "second"}}
	want := p.Measure(pods, nil)
	// cAdvisor notices a new cgroup after the one above it, so that a pod can have memory
	// before its containers have processes.
	counted := func(i int, u *signals.Usage) bool {
		return box.Version() == 1 || u.Processes == want[i].Usage.Processes
	}
	for i, got := range awaitUsage(t, c, pods, time.Now(), counted) {
		expectSimilar(t, "cAdvisor", got, want[i])
		if box.Version() == 1 && got.Usage.Processes.Known {
			t.Errorf("%s: got %d processes without a cpu controller, want unknown", pods[i].UID, got.Usage.Processes.Value)
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// awaitSample measures until every pod's memory was sampled after a time, and returns the
// candidates.
func awaitSample(t testing.TB, p Provider, pods []signals.Pod, after time.Time) []signals.Candidate {
	t.Helper()
	return awaitUsage(t, p, pods, after, func(int, *signals.Usage) bool { return true })
}

// awaitUsage is awaitSample, and waits until the usage of each pod also meets a condition.
func awaitUsage(t testing.TB, p Provider, pods []signals.Pod, after time.Time, met func(pod int, u *signals.Usage) bool) []signals.Candidate {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var got []signals.Candidate
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		got = p.Measure(pods, got[:0])
		sampled := 0
		for i := range got {
			if u := got[i].Usage; u != nil && u.Memory.Known && u.Time.After(after) && met(i, u) {
				sampled++
			}
		}
		if sampled == len(pods) {
			return got
		}
	}
	for i := range got {
		t.Logf("%s: last usage %+v", pods[i].UID, got[i].Usage)
	}
	t.Fatalf("no matching sample within a minute: %v", p.Err())
	return nil
}

// expectSimilar checks that two providers report the same memory of a pod, within 10 % or 4 MiB,
// because they sample at different times.
func expectSimilar(t *testing.T, provider string, got, want signals.Candidate) {
	t.Helper()
	if got.Usage == nil || !got.Usage.Memory.Known {
		t.Errorf("%s: %s has no memory usage: %+v", got.Pod.UID, provider, got.Usage)
		return
	}
	value, reference := got.Usage.Memory.Value, want.Usage.Memory.Value
	if tolerance := max(reference/10, 4*mib); value < reference-tolerance || value > reference+tolerance {
		t.Errorf("%s: %s reports %d bytes, the cgroup %d", got.Pod.UID, provider, value, reference)
	}
}
