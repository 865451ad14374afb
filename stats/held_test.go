package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// makeGroup makes a cgroup of plain files, in MiB.
func makeGroup(t *testing.T, h cgroup.Hierarchy, at string, usage, cache int) {
	t.Helper()
	dir := h.Dir("memory", at)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "memory.current", fmt.Sprintln(usage*mib))
	write(t, dir, "memory.stat", fmt.Sprintf("anon 1\nfile 2\nactive_file %d\ninactive_file %d\n", cache*mib/4, cache*mib*3/4))
	write(t, dir, "memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 2\n")
}

func mebibytes(n int) signals.Measured[signals.Bytes] { return signals.Of(signals.Bytes(n) * mib) }

// patientReader returns a reader that a pause of the machine does not end.
func patientReader(h cgroup.Hierarchy, places *cgroup.PodPlaces, nodeCgroup, procRoot string) *HeldReader {
	r := NewHeldReader(h, places, nodeCgroup, procRoot)
	r.limit = time.Minute
	return r
}

func TestHeldReader_ReadsPods(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	r := patientReader(h, cgroup.NewPodPlaces(h, "/"), "/", "testdata/proc")
	if got := r.Read(); got.Complete || len(got.Pods) != 0 {
		t.Errorf("without pods: %+v", got)
	}
	if _, err := r.OOMKills(true); err == nil {
		t.Error("counted without pods")
	}
	makeGroup(t, h, "/kubepods", 900, 100)
	makeGroup(t, h, "/kubepods/burstable/poda", 500, 40)
	makeGroup(t, h, "/kubepods/burstable/poda/a1", 300, 40)
	makeGroup(t, h, "/kubepods/burstable/poda/a2", 200, 0)
	makeGroup(t, h, "/kubepods/podb", 100, 100)
	makeGroup(t, h, "/kubepods/burstable", 600, 50)
	got := r.Read()
	if total := got.Total("/"); !total.Known || total.Value <= 0 {
		t.Errorf("total of the machine: %+v", total)
	}
	got.At, got.Doubt, got.Totals = signals.Holdings{}.At, 0, got.Totals[:2]
	want := signals.Holdings{Complete: true, Totals: []signals.CgroupHoldings{{Path: "/kubepods/burstable", Held: mebibytes(550)}, {Path: "/kubepods", Held: mebibytes(800)}}, Pods: []signals.PodHoldings{
		{UID: "b", Path: "/kubepods/podb", Held: mebibytes(0), Containers: []signals.ContainerHoldings{}},
		{UID: "a", Path: "/kubepods/burstable/poda", Held: mebibytes(460), Containers: []signals.ContainerHoldings{{Name: "a1", Held: mebibytes(260)}, {Name: "a2", Held: mebibytes(200)}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	r.limit = 0
	if got := r.Read(); got.Complete || len(got.Pods) != 0 || !got.Total("/kubepods").Known {
		t.Errorf("after the time for pods: %+v", got)
	}
	r.limit = time.Minute
	if err := os.WriteFile(filepath.Join(h.Dir("memory", "/kubepods/podb"), "memory.stat"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.Read(); got.Total("/kubepods/besteffort").Known || got.Pods[0].Held.Known || !got.Pods[1].Held.Known {
		t.Errorf("unreadable files: %+v", got)
	}
	if n, err := r.OOMKills(false); n != 2 || err != nil {
		t.Errorf("%d OOM kills, %v", n, err)
	}
}

func TestHeldReader_ReadsMachine(t *testing.T) {
	proc := t.TempDir()
	write(t, proc, "meminfo", "MemTotal: 16384 kB\nMemFree: 4096 kB\nActive(file): 1024 kB\nInactive(file): 2048 kB\n")
	write(t, proc, "vmstat", "oom_kill 7\n")
	h := cgroup.At(cgroup.V1, t.TempDir())
	makeGroup(t, h, "/kubepods/poda", 1, 0)
	r := patientReader(h, cgroup.NewPodPlaces(h, "/"), "", proc)
	if got := r.Read(); got.Total("/") != mebibytes(9) {
		t.Errorf("%+v", got)
	}
	if n, err := r.OOMKills(true); n != 7 || err != nil {
		t.Errorf("%d OOM kills, %v", n, err)
	}
	if n, err := r.OOMKills(false); err == nil {
		t.Errorf("%d OOM kills of a part of the machine", n)
	}
	write(t, proc, "meminfo", "MemTotal: 16384 kB\n")
	if got := r.Read(); got.Total("/").Known {
		t.Errorf("%+v", got)
	}
}

// TestHeld_OfHogs compares both readings with hogs on the real kernel: files on a disk are not held,
// files in memory are.
func TestHeld_OfHogs(t *testing.T) {
	if !alone(t) {
		return
	}
	box := sandboxNode(t)
	h, err := cgroup.Detect(box.Root())
	if err != nil {
		t.Fatal(err)
	}
	p := addPod(t, box, "6f1d0d7c-2b4e-4a51-9c8a-000000000401", sandbox.Burstable, "anon", "cache")
	box.Run(t, p, "anon", "fill 100MiB")
	box.Run(t, p, "cache", "cache 100MiB in "+onDisk+" fsync")
	places := cgroup.NewPodPlaces(h, box.Path())
	read := patientReader(h, places, box.Path(), "/proc").Read()
	pods := OpenPodsAt(h, places)
	t.Cleanup(pods.Close)
	list := []signals.Pod{{UID: p.UID}, {UID: "gone"}}
	pods.MeasureMemory(list, nil)
	loop := pods.Holdings(list, nil)
	if !read.Complete || len(read.Pods) != 1 || len(loop) != 1 {
		t.Fatalf("%+v, %+v", read, loop)
	}
	const program, other = 60 * mib, 10 * mib // of the hog's program, under the race detector as well; of the kernel
	for name, got := range map[string]signals.PodHoldings{"reader": read.Pods[0], "loop": loop[0]} {
		held := map[string]signals.Bytes{}
		for _, c := range got.Containers {
			held[c.Name] = c.Held.Value
		}
		anon, cache := held["anon"], held["cache"] // the same program runs in both
		if cache <= 0 || cache > program || anon-cache < 100*mib-other || anon-cache > 100*mib+other || got.Held.Value < anon+cache-other || got.Held.Value > anon+cache+other {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if total, pod := read.Total(box.Path()), read.Pods[0].Held; total.Value < pod.Value-other || total.Value > pod.Value+other {
		t.Errorf("total %+v, of the pod %+v", total, pod)
	}
	if n := testing.AllocsPerRun(100, func() { loop = pods.Holdings(list, loop) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
