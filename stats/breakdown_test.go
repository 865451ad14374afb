package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

func TestBreakdowns_FollowPods(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	group := func(uid string, anon int) {
		dir := h.Dir("memory", "/kubepods/pod"+uid)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "memory.current", "1000\n")
		write(t, dir, "memory.stat", fmt.Sprintf("anon %d\nfile 20\ninactive_file 4\n", anon))
	}
	b := OpenBreakdowns(h, cgroup.NewPodPlaces(h, "/"))
	defer b.Close()
	pods := []signals.Pod{{UID: "a"}, {UID: "b"}, {UID: "c"}}
	read := func() (got []string) {
		b.Read(pods, func(p *signals.Pod, v *cgroup.Breakdown) {
			got = append(got, fmt.Sprint(p.UID, v.Anon.Value, v.WorkingSet.Value, v.Swap.Known))
		})
		return got
	}
	if got := read(); len(got) != 0 {
		t.Errorf("without a tree: %v", got)
	}
	group("a", 1)
	group("b", 2)
	if got, want := read(), []string{"a1 996 false", "b2 996 false"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	group("c", 3)
	group("b", 22)
	if got, want := read(), []string{"a1 996 false", "b22 996 false", "c3 996 false"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	free := b.free
	if pods = pods[2:]; len(read()) != 1 || len(b.known) != 1 || b.free <= free {
		t.Errorf("%d pods are open after two have left, %d descriptors left", len(b.known), b.free)
	}
	b.free = 0 // no file may stay open
	if pods = append(pods, signals.Pod{UID: "a"}); len(read()) != 2 || len(b.known) != 1 {
		t.Errorf("%d pods are open without descriptors", len(b.known))
	}
}

func TestMachineCounters_UnknownIfUnreadable(t *testing.T) {
	proc := t.TempDir()
	m := OpenMachineCounters(proc)
	defer m.Close()
	if got := m.Read(); got != (MachineCount{}) {
		t.Errorf("nothing there: %+v", got)
	}
	if err := os.Mkdir(filepath.Join(proc, "pressure"), 0o750); err != nil {
		t.Fatal(err)
	}
	write(t, proc, "vmstat", "nr_free_pages 7\noom_kill 3\n")
	write(t, proc, "pressure/memory", "some avg10=0.00 total=5\nfull avg10=0.00 total=4\n")
	write(t, proc, "pressure/io", "broken\n")
	known := func(v uint64) cgroup.Counted { return cgroup.Counted{Value: v, Known: true} }
	for range 2 {
		if got := m.Read(); got != (MachineCount{MemoryStallSome: known(5), MemoryStallFull: known(4), OOMKills: known(3)}) {
			t.Errorf("read %+v", got)
		}
	}
}
