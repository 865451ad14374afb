package stats

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cadvisor/machine"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestMain(m *testing.M) {
	hog.RunIfSet()
	os.Exit(m.Run())
}

func sandboxNode(t testing.TB, options ...sandbox.Option) *sandbox.Node {
	t.Helper()
	return sandbox.Make(t, "stats", 512*mib, options...)
}

func addPod(t testing.TB, n *sandbox.Node, uid string, qos sandbox.QoS, containers ...string) *sandbox.Pod {
	t.Helper()
	p, err := n.AddPod(uid, qos, containers...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openNode(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := OpenNode(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func TestNode_ObservesMemoryOfHog(t *testing.T) {
	box := sandboxNode(t, sandbox.PidsMax(50))
	p := addPod(t, box, "hog", sandbox.Burstable, "main")
	n := openNode(t, Options{NodeCgroup: box.Path(), KubeReserved: 100 * mib})
	var before, after signals.Observations
	n.Observe(signals.Periodic, noon, &before)
	box.Run(t, p, "main", "fill 128MiB")
	n.Observe(signals.Periodic, noon, &after)
	for s, capacity := range map[signals.Signal]signals.Amount{signals.MemoryAvailable: 512 * mib, signals.AllocatableMemoryAvailable: 412 * mib} {
		fell := before[s].Available - after[s].Available
		if !before[s].Known || !after[s].Known || after[s].Capacity != capacity || fell < 128*mib || fell > 160*mib {
			t.Errorf("%s: before %+v, after %+v", s, before[s], after[s])
		}
	}
	if o := after[signals.PIDAvailable]; !o.Known || o.Capacity != 50 || o.Available >= 50 || o.Available < 30 {
		t.Errorf("pid.available = %+v", o)
	}
}

func TestNode_ObservesThisMachine(t *testing.T) {
	sandbox.Need(t)
	n := openNode(t, Options{})
	var got signals.Observations
	n.Observe(signals.Periodic, noon, &got)
	total, err := machine.GetMachineMemoryCapacity()
	if err != nil {
		t.Fatal(err)
	}
	if o := got[signals.MemoryAvailable]; !o.Known || o.Capacity != signals.Amount(total) || o.Available <= 0 || o.Available >= o.Capacity {
		t.Errorf("memory.available = %+v, cAdvisor's capacity is %d", o, total)
	}
	if o := got[signals.PIDAvailable]; !o.Known || o.Available <= 0 || o.Available >= o.Capacity {
		t.Errorf("pid.available = %+v", o)
	}
	if got, err := MachineMemory("/proc"); err != nil || got != signals.Bytes(total) {
		t.Errorf("the machine's memory is %d, %v, want %d", got, err, total)
	}
}

// TestMeminfo_EqualsRootCgroup checks that the machine's counters equal those of the
// root cgroup. Other programs run meanwhile, so the test compares them while the machine's
// counters stay constant.
func TestMeminfo_EqualsRootCgroup(t *testing.T) {
	const others = 64 * mib
	box := sandboxNode(t)
	pod := addPod(t, box, "x", sandbox.Burstable, "app")
	n := openNode(t, Options{})
	root, err := cgroup.OpenMemory(n.Hierarchy(), "/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := box.Run(t, pod, "app")
	for _, command := range []string{"fill 128MiB", "tmpfs 64MiB for 0s", "cache 64MiB in " + onDisk + " fsync", "cache 64MiB in " + onDisk + " fsync drop", "release"} {
		if err := runCommand(t, h, command); err != nil {
			t.Fatal(err)
		}
		var u cgroup.MemoryUsage
		before, after := signals.Amount(0), signals.Amount(others)
		for distance := after; distance >= others/4; distance = max(before, after) - min(before, after) {
			before = machineWorkingSet(t, n)
			if u, err = root.Read(); err != nil {
				t.Fatal(err)
			}
			after = machineWorkingSet(t, n)
		}
		used := signals.Amount(u.WorkingSet())
		t.Logf("after %s: meminfo has %d KiB more than the root's memory.stat", command, (min(before, after)-used)>>10)
		if max(before, after) < used-others || min(before, after) > used+others {
			t.Errorf("after %s: memory.stat %d, meminfo %d, then %d", command, used, before, after)
		}
	}
}

// machineWorkingSet returns the machine's working set by meminfo.
func machineWorkingSet(t *testing.T, n *Node) signals.Amount {
	t.Helper()
	text, err := n.meminfo.Read(n.buf)
	if err != nil {
		t.Fatal(err)
	}
	u, err := parseMachineUsage(text)
	if err != nil {
		t.Fatal(err)
	}
	return signals.Amount(u.anon + u.file - u.inactiveFile)
}

// alone reports whether this process has no other test, which it does in a further process. The allocations of a
// process count together, and an earlier cAdvisor allocates for every cgroup that any test makes.
func alone(t *testing.T) bool {
	t.Helper()
	sandbox.Need(t)
	return inOwnProcess(t, 0)
}

func TestNode_AllocatesNothing(t *testing.T) {
	if !alone(t) {
		return
	}
	box := sandboxNode(t)
	for name, o := range map[string]Options{"machine": {}, "cgroup": {NodeCgroup: box.Path(), KubeReserved: mib}} {
		n := openNode(t, o)
		var into signals.Observations
		for _, kind := range []signals.Kind{signals.Periodic, signals.Early} {
			if allocs := testing.AllocsPerRun(100, func() { n.Observe(kind, noon, &into) }); allocs != 0 {
				t.Errorf("%s: a %s check allocates %v times", name, kind, allocs)
			}
		}
	}
}

// TestNode_UnknownAfterRemoval checks that a node with a removed cgroup is unknown at every
// check, without garbage.
func TestNode_UnknownAfterRemoval(t *testing.T) {
	box := sandboxNode(t)
	n := openNode(t, Options{NodeCgroup: box.Path()})
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	var got signals.Observations
	n.Observe(signals.Periodic, noon, &got)
	expectUnknown(t, got, signals.MemoryAvailable, "does not exist")
	expectUnknown(t, got, signals.AllocatableMemoryAvailable, "does not exist")
	expectUnknown(t, got, signals.PIDAvailable, "does not exist")
	text := got[signals.MemoryAvailable].Cause
	if n.Observe(signals.Early, noon, &got); got[signals.MemoryAvailable].Cause != text {
		t.Errorf("cause became %q", got[signals.MemoryAvailable].Cause)
	}
}

func TestPods_MeasuresMemoryAndProcesses(t *testing.T) {
	for name, options := range map[string][]sandbox.Option{"cgroupfs": nil, "systemd": {sandbox.SystemdNames()}} {
		t.Run(name, func(t *testing.T) {
			box := sandboxNode(t, options...)
			a := addPod(t, box, "0b6d-a", sandbox.Guaranteed, "app", "sidecar")
			addPod(t, box, "0b6d-b", sandbox.BestEffort, "app")
			box.Run(t, a, "app", "fill 32MiB", "threads 7")
			box.Run(t, a, "sidecar", "fork 1", "fork 1", "fork 1")
			pods := []signals.Pod{{UID: "0b6d-b"}, {UID: "0b6d-a"}, {UID: "gone"}}
			p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
			defer p.Close()
			got := p.Measure(pods, nil)
			if p.Err() != nil || len(got) != 3 || got[0].Pod != &pods[0] || got[2].Usage != nil {
				t.Fatalf("%+v, %v", got, p.Err())
			}
			idle, busy := got[0].Usage, got[1].Usage
			if !idle.Memory.Known || idle.Memory.Value > mib || idle.Processes != signals.Of[signals.PIDs](0) {
				t.Errorf("idle pod: %+v", idle)
			}
			app, side := busy.Container(&signals.Container{Name: "app"}), busy.Container(&signals.Container{Name: "sidecar"})
			if app == nil || side == nil || app.Memory.Value < 32*mib || side.Memory.Value >= 32*mib || busy.Memory.Value < app.Memory.Value {
				t.Errorf("busy pod: %+v", busy)
			}
			if busy.Processes != signals.Of[signals.PIDs](5) { // threads are not processes
				t.Errorf("busy pod has %+v processes, want 2 hogs and 3 forks", busy.Processes)
			}
			if idle.Tasks != signals.Of[signals.PIDs](0) || busy.Tasks.Value < 5+7 {
				t.Errorf("%+v and %+v tasks, want 0 and at least 12: threads are tasks", idle.Tasks, busy.Tasks)
			}
			c, ok := p.Cgroup("0b6d-a")
			if d, err := cgroup.OpenDir(p.h, "memory", a.Path()); !ok || err != nil || c.Path != a.Path() || c.Inode != d.Inode() {
				t.Errorf("cgroup %+v, %t, %v", c, ok, err)
			}
			if _, ok := p.Cgroup("gone"); ok {
				t.Error("got a cgroup for a removed pod")
			}
		})
	}
}

func TestPods_MeasureAllocatesNothing(t *testing.T) {
	if !alone(t) {
		return
	}
	box := sandboxNode(t)
	pods := manyPods(t, box, 5)
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	defer p.Close()
	p.Prepare(pods)
	into := make([]signals.Candidate, 0, len(pods))
	if allocs := testing.AllocsPerRun(100, func() { into = p.Measure(pods, into[:0]) }); allocs != 0 {
		t.Errorf("Measure allocates %v times", allocs)
	}
}

// TestPods_MeasureFollowsChanges checks that a change between two measurements is in the second.
func TestPods_MeasureFollowsChanges(t *testing.T) {
	box := sandboxNode(t)
	h := openNode(t, Options{}).Hierarchy()
	pod := addPod(t, box, "x", sandbox.Burstable, "app")
	pods := []signals.Pod{{UID: "x"}}
	p := OpenPods(h, box.Path())
	defer p.Close()
	containers := func() string {
		var names []string
		for _, c := range p.Measure(pods, nil)[0].Usage.Containers {
			names = append(names, c.Name)
		}
		return strings.Join(names, " ")
	}
	first := containers()
	addPod(t, box, "x", sandbox.Burstable, "new")
	second := containers()
	remove(t, pod.ContainerDir("memory", "app"))
	addPod(t, box, "x", sandbox.Burstable, "other") // as many as before
	if third := containers(); first != "app" || second != "app new" || third != "new other" {
		t.Errorf("containers were %q, then %q, then %q", first, second, third)
	}
	before, _ := p.Cgroup("x")
	remove(t, h.Dir("memory", pod.Path()+"/new"), h.Dir("memory", pod.Path()+"/other"), h.Dir("memory", pod.Path()))
	if got := p.Measure(pods, nil); got[0].Usage != nil {
		t.Errorf("a pod without a cgroup has usage %+v", got[0].Usage)
	}
	addPod(t, box, "x", sandbox.Burstable, "app")
	got := p.MeasureMemory(pods, nil)
	if after, ok := p.Cgroup("x"); got[0].Usage == nil || !ok || after.Inode == before.Inode || got[0].Usage.Processes.Known {
		t.Errorf("recreated pod: %+v, inodes %d, %d", got[0].Usage, before.Inode, after.Inode)
	}
}

// TestPods_CountsNestedProcesses checks that processes in cgroups created by containers, as
// by an init system, are counted.
func TestPods_CountsNestedProcesses(t *testing.T) {
	box := sandboxNode(t)
	pod := addPod(t, box, "x", sandbox.Burstable, "app")
	box.Run(t, pod, "app")
	inner := box.Run(t, pod, "app")
	move(t, inner, pod.ContainerDir("memory", "app")+"/init.scope/service")
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	defer p.Close()
	got := p.Measure([]signals.Pod{{UID: "x"}}, nil)
	if u := got[0].Usage; u == nil || u.Processes != signals.Of[signals.PIDs](2) {
		t.Errorf("usage %+v, %v, want 2 processes", u, p.Err())
	}
}

func remove(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPods_MeasuresWithFewDescriptors checks that pods beyond the limit of open descriptors are
// measured.
func TestPods_MeasuresWithFewDescriptors(t *testing.T) {
	box := sandboxNode(t)
	pods := manyPods(t, box, 6)
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	defer p.Close()
	p.free = 20 // two pods of two containers
	for range 3 {
		for _, c := range p.Measure(pods, nil) {
			if c.Usage == nil || !c.Usage.Memory.Known || !c.Usage.Processes.Known || len(c.Usage.Containers) != 2 {
				t.Errorf("%s: %+v, %v", c.Pod.UID, c.Usage, p.Err())
			}
		}
		if p.free != 2 {
			t.Errorf("%d descriptors are free, want 2", p.free)
		}
	}
	for range idleRounds + 1 {
		p.Measure(pods[4:], nil)
	}
	if _, known := p.Cgroup(pods[0].UID); known || p.free != 2 || !p.known[pods[5].UID].staysOpen {
		t.Errorf("pods without requests stay open: %d descriptors are free", p.free)
	}
	if p.Close(); p.free != 20 {
		t.Errorf("%d descriptors are free after Close, want 20", p.free)
	}
}

func manyPods(t testing.TB, box *sandbox.Node, n int) []signals.Pod {
	t.Helper()
	pods := make([]signals.Pod, n)
	for i := range pods {
		pods[i].UID = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		addPod(t, box, pods[i].UID, sandbox.Burstable, "app", "sidecar")
	}
	runtime.GC()
	return pods
}
