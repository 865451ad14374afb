package stats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

const (
	mib       = 1 << 20
	memTotal4 = 4096 * mib // of testdata/proc
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func fixture(v cgroup.Version, naming string) Options {
	return Options{
		ProcRoot:  "testdata/proc",
		Hierarchy: cgroup.At(v, "../internal/cgroup/testdata/"+v.String()+"-"+naming),
	}
}

func eachFixture(t *testing.T, test func(t *testing.T, o Options)) {
	for _, v := range []cgroup.Version{cgroup.V1, cgroup.V2} {
		for _, naming := range []string{"cgroupfs", "systemd"} {
			t.Run(v.String()+"-"+naming, func(t *testing.T) { test(t, fixture(v, naming)) })
		}
	}
}

func observeNode(t *testing.T, o Options, kind signals.Kind) (signals.Observations, *Node) {
	t.Helper()
	n, err := OpenNode(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	var got signals.Observations
	n.Observe(kind, noon, &got)
	return got, n
}

func expect(t *testing.T, got signals.Observations, s signals.Signal, available, capacity signals.Amount) {
	t.Helper()
	want := signals.Observed(available, capacity, noon)
	want.Cache = got[s].Cache // see TestNode_ReportsPageCacheInUse
	if got[s] != want {
		t.Errorf("%s = %+v, want %+v", s, got[s], want)
	}
}

func TestNode_ReportsPageCacheInUse(t *testing.T) {
	eachFixture(t, func(t *testing.T, o Options) {
		got, _ := observeNode(t, o, signals.Early)
		if got[signals.MemoryAvailable].Cache != 300*mib || got[signals.AllocatableMemoryAvailable].Cache != 50*mib {
			t.Errorf("got cache %+v", got)
		}
	})
}

func expectUnknown(t *testing.T, got signals.Observations, s signals.Signal, cause string) {
	t.Helper()
	if got[s].Known || !strings.Contains(got[s].Cause, cause) {
		t.Errorf("%s = %+v, want unknown because of %q", s, got[s], cause)
	}
}

// TestNode_ObservesMachine uses MemTotal 4 GiB. The root cgroup uses 2000 MiB, 300 of them
// inactive page cache; kubepods uses 600 of 800 MiB, 50 inactive.
func TestNode_ObservesMachine(t *testing.T) {
	eachFixture(t, func(t *testing.T, o Options) {
		got, n := observeNode(t, o, signals.Periodic)
		expect(t, got, signals.MemoryAvailable, memTotal4-1700*mib, memTotal4)
		expect(t, got, signals.AllocatableMemoryAvailable, 250*mib, 800*mib)
		expect(t, got, signals.PIDAvailable, 32768-183, 32768)
		for s := signals.NodefsAvailable; s <= signals.ContainerfsInodesFree; s++ {
			expectUnknown(t, got, s, "not observed")
		}
		if !n.IsMachine() {
			t.Error("IsMachine returned false for /")
		}
	})
}

// TestNode_ObservesCgroup uses a cgroup as the node: limit 1 GiB, 500 MiB used, 100 inactive.
func TestNode_ObservesCgroup(t *testing.T) {
	eachFixture(t, func(t *testing.T, o Options) {
		o.NodeCgroup = "node"
		got, _ := observeNode(t, o, signals.Periodic)
		expect(t, got, signals.MemoryAvailable, 624*mib, 1024*mib)
		expectUnknown(t, got, signals.AllocatableMemoryAvailable, "--kube-reserved")
		if o.Hierarchy.Version == cgroup.V1 {
			expect(t, got, signals.PIDAvailable, 88, 100)
		} else { // pids.max is "max" there
			expect(t, got, signals.PIDAvailable, 32768-183, 32768)
		}
	})
}

func TestNode_AppliesReservationsWithoutPodLimit(t *testing.T) {
	eachFixture(t, func(t *testing.T, o Options) {
		o.NodeCgroup, o.KubeReserved, o.SystemReserved = "/node", 200*mib, 24*mib
		got, _ := observeNode(t, o, signals.Periodic)
		expect(t, got, signals.AllocatableMemoryAvailable, 500*mib, 800*mib)
		o.KubeReserved = 1000 * mib
		got, _ = observeNode(t, o, signals.Periodic)
		expectUnknown(t, got, signals.AllocatableMemoryAvailable, "leave nothing")
		o.NodeCgroup = "/" // kubepods has a limit here, which overrides the reservations
		got, _ = observeNode(t, o, signals.Periodic)
		expect(t, got, signals.AllocatableMemoryAvailable, 250*mib, 800*mib)
	})
}

// TestNode_UnknownWithoutEveryCounter checks that a missing line of meminfo is not read
// as 0.
func TestNode_UnknownWithoutEveryCounter(t *testing.T) {
	for _, key := range []string{"Cached", "Buffers", "SwapCached", "Active(file)", "Inactive(file)", "AnonPages", "MemAvailable"} {
		o := tree(t, fixture(cgroup.V2, "cgroupfs"))
		text, err := os.ReadFile(filepath.Join(o.ProcRoot, "meminfo"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, o.ProcRoot, "meminfo", strings.Replace(string(text), "\n"+key+":", "\nNo"+key+":", 1))
		got, _ := observeNode(t, o, signals.Early)
		expectUnknown(t, got, signals.MemoryAvailable, key)
	}
}

func TestNode_EarlyCheckReadsOnlyMemory(t *testing.T) {
	_, n := observeNode(t, fixture(cgroup.V1, "cgroupfs"), signals.Periodic)
	var got signals.Observations
	before := signals.Observed(7, 9, noon.Add(-time.Second))
	got[signals.PIDAvailable] = before
	n.Observe(signals.Early, noon, &got)
	if got[signals.PIDAvailable] != before {
		t.Errorf("the early check changed pid.available to %+v", got[signals.PIDAvailable])
	}
	expect(t, got, signals.MemoryAvailable, memTotal4-1700*mib, memTotal4)
	expect(t, got, signals.AllocatableMemoryAvailable, 250*mib, 800*mib)
}

// tree copies a fixture for modification by a test.
func tree(t *testing.T, o Options) Options {
	t.Helper()
	cgroups, proc := t.TempDir(), t.TempDir()
	if err := os.CopyFS(cgroups, os.DirFS(o.Hierarchy.Root)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(proc, os.DirFS(o.ProcRoot)); err != nil {
		t.Fatal(err)
	}
	o.Hierarchy.Root, o.ProcRoot = cgroups, proc
	return o
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // a fixture
		t.Fatal(err)
	}
}

func TestNode_ReportsUnreadableAsUnknown(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		unknown          []signals.Signal
		cause            string
	}{
		{"malformed usage", "memory.usage_in_bytes", "lots\n", []signals.Signal{signals.MemoryAvailable}, "lots"},
		{"empty usage", "memory.usage_in_bytes", "", []signals.Signal{signals.MemoryAvailable}, "memory.usage_in_bytes"},
		{"negative usage", "memory.usage_in_bytes", "18446744073709551615\n", []signals.Signal{signals.MemoryAvailable}, "absurd"},
		{"truncated stat", "memory.stat", "cache 1\n", []signals.Signal{signals.MemoryAvailable}, "total_rss"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := tree(t, fixture(cgroup.V1, "cgroupfs"))
			o.NodeCgroup, o.KubeReserved = "/node", 224*mib
			write(t, o.Hierarchy.Dir("memory", "/node"), c.file, c.text)
			got, _ := observeNode(t, o, signals.Periodic)
			for _, s := range c.unknown {
				expectUnknown(t, got, s, c.cause)
			}
			expect(t, got, signals.AllocatableMemoryAvailable, 500*mib, 800*mib)
		})
	}
}

func TestNode_ReportsBrokenProcAsUnknown(t *testing.T) {
	for file, s := range map[string]signals.Signal{
		"meminfo":                signals.MemoryAvailable,
		"loadavg":                signals.PIDAvailable,
		"sys/kernel/pid_max":     signals.PIDAvailable,
		"sys/kernel/threads-max": signals.PIDAvailable,
	} {
		o := tree(t, fixture(cgroup.V1, "cgroupfs"))
		_, n := observeNode(t, o, signals.Periodic)
		write(t, o.ProcRoot, file, "nonsense\n")
		var got signals.Observations
		n.Observe(signals.Periodic, noon, &got)
		expectUnknown(t, got, s, file)
	}
}

func TestNode_ReportsNegativeAvailable(t *testing.T) {
	o := tree(t, fixture(cgroup.V1, "cgroupfs"))
	write(t, o.Hierarchy.Dir("memory", "/kubepods"), "memory.limit_in_bytes", "104857600\n")
	got, _ := observeNode(t, o, signals.Periodic)
	expect(t, got, signals.AllocatableMemoryAvailable, -450*mib, 100*mib)
}

func TestNode_CapsLimitAtMachineMemory(t *testing.T) {
	o := tree(t, fixture(cgroup.V2, "cgroupfs"))
	o.NodeCgroup = "/node"
	write(t, o.Hierarchy.Dir("memory", "/node"), "memory.max", "1099511627776\n")
	got, _ := observeNode(t, o, signals.Periodic)
	expect(t, got, signals.MemoryAvailable, memTotal4-400*mib, memTotal4)
}

func TestNode_UsesLimitOfAncestor(t *testing.T) {
	o := tree(t, fixture(cgroup.V1, "cgroupfs"))
	inner := o.Hierarchy.Dir("memory", "/node/inner")
	if err := os.CopyFS(inner, os.DirFS(o.Hierarchy.Dir("memory", "/node/kubepods"))); err != nil {
		t.Fatal(err)
	}
	o.NodeCgroup = "/node/inner"
	got, _ := observeNode(t, o, signals.Periodic)
	expect(t, got, signals.MemoryAvailable, 724*mib, 1024*mib)
	write(t, o.Hierarchy.Dir("memory", "/node"), "memory.limit_in_bytes", "9223372036854771712\n")
	got, _ = observeNode(t, o, signals.Periodic)
	expect(t, got, signals.MemoryAvailable, memTotal4-300*mib, memTotal4)
}

func TestNode_FindsKubepodsLater(t *testing.T) {
	o := tree(t, fixture(cgroup.V1, "cgroupfs"))
	kubepods, aside := o.Hierarchy.Dir("memory", "/kubepods"), filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(kubepods, aside); err != nil {
		t.Fatal(err)
	}
	got, n := observeNode(t, o, signals.Periodic)
	expectUnknown(t, got, signals.AllocatableMemoryAvailable, "kubepods")
	if err := os.Rename(aside, kubepods); err != nil {
		t.Fatal(err)
	}
	n.Observe(signals.Early, noon, &got) // an early check does not search
	expectUnknown(t, got, signals.AllocatableMemoryAvailable, "kubepods")
	n.Observe(signals.Periodic, noon, &got)
	expect(t, got, signals.AllocatableMemoryAvailable, 250*mib, 800*mib)
}

func TestOpenNode_NamesMissingFiles(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   []string
	}{
		{func(o *Options) { o.NodeCgroup = "/none" }, []string{"/none", "memory.stat", "check the path"}},
		{func(o *Options) { o.ProcRoot = "testdata/none" }, []string{"meminfo", "loadavg"}},
		{func(o *Options) { o.KubeReserved = -1 }, []string{"-1", "at least 0"}},
		{func(o *Options) { o.Hierarchy, o.CgroupRoot = cgroup.Hierarchy{}, "testdata" }, []string{"testdata", "mount"}},
	} {
		o := fixture(cgroup.V1, "cgroupfs")
		c.change(&o)
		n, err := OpenNode(o)
		if err == nil {
			n.Close()
			t.Errorf("%+v: got no error", o)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q lacks %q", err, part)
			}
		}
	}
}

func TestMachineMemory_ReadsMeminfo(t *testing.T) {
	if got, err := MachineMemory("testdata/proc"); err != nil || got != memTotal4 {
		t.Errorf("got %d, %v, want %d", got, err, memTotal4)
	}
	if got, err := MachineMemory("testdata/none"); err == nil {
		t.Errorf("got %d without a meminfo, want an error", got)
	}
}
