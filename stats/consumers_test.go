package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// consumersOf returns the consumers of a node.
func consumersOf(t *testing.T, o Options) *Consumers {
	t.Helper()
	o, err := o.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return NewConsumers(o)
}

// groupFiles makes cgroups of version 2, each with the amount of memory and tasks in it and below it.
func groupFiles(t *testing.T, amounts map[string]int) Options {
	t.Helper()
	h := cgroup.At(cgroup.V2, t.TempDir())
	for place, n := range amounts {
		dir := h.Dir("memory", place)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"memory.current": fmt.Sprintln(n), "memory.stat": fmt.Sprintf("anon %d\nfile 0\nactive_file 0\ninactive_file 0\n", n),
			"pids.current": fmt.Sprintln(n), "pids.max": "max\n"} {
			write(t, dir, name, text)
		}
	}
	proc := t.TempDir()
	write(t, proc, "meminfo", "MemTotal: 8 kB\nSUnreclaim: 40 kB\nShmem: 0 kB\nPageTables: 2 kB\n")
	write(t, proc, "loadavg", "0.00 0.01 0.05 1/1000 4242\n")
	return Options{ProcRoot: proc, Hierarchy: h, Places: cgroup.NewPodPlaces(h, "/")}
}

// named returns the consumers as "KIND NAME AMOUNT".
func named(found []signals.Consumer) (names []string) {
	for _, c := range found {
		names = append(names, fmt.Sprintf("%s %s %d", c.Kind, c.Name, c.Amount))
	}
	return names
}

func expectConsumers(t *testing.T, got signals.Consumption, want ...string) {
	t.Helper()
	if text := strings.Join(named(got.Largest), "\n"); text != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", text, strings.Join(want, "\n"))
	}
}

// The services of a slice are listed, and what the slice holds beyond them. A service may have any
// cgroups of its own.
func TestConsumers_DivideSlices(t *testing.T) {
	c := consumersOf(t, groupFiles(t, map[string]int{
		"/kubepods.slice":                                          500,
		"/kubepods.slice/kubepods-podab.slice":                     500,
		"/system.slice":                                            390,
		"/system.slice/agent.service":                              300,
		"/system.slice/agent.service/inner":                        299,
		"/system.slice/small.service":                              10,
		"/user.slice":                                              100,
		"/user.slice/user-0.slice":                                 100,
		"/user.slice/user-0.slice/session-1.scope":                 100,
		"/init.scope":                                              0,
		"/lonely.slice":                                            7,
		"/a.slice":                                                 3,
		"/a.slice/b.slice":                                         3,
		"/a.slice/b.slice/c.slice":                                 3,
		"/a.slice/b.slice/c.slice/d.slice":                         3,
		"/a.slice/b.slice/c.slice/d.slice/e.slice":                 3,
		"/a.slice/b.slice/c.slice/d.slice/e.slice/f.slice":         3,
		"/a.slice/b.slice/c.slice/d.slice/e.slice/f.slice/g.scope": 3,
	}))
	expectConsumers(t, c.PIDs(), "pods pods (kubepods.slice) 500", "cgroup cgroup system.slice/agent.service 300",
		"cgroup cgroup user.slice/user-0.slice/session-1.scope 100", "cgroup cgroup system.slice itself 80",
		"cgroup cgroup system.slice/small.service 10", "cgroup cgroup lonely.slice 7", "cgroup cgroup a.slice/b.slice/c.slice/d.slice/e.slice 3")
	memory := c.Memory()
	expectConsumers(t, memory, "kernel slab, unreclaimable 40960", "kernel page tables 2048", "pods pods (kubepods.slice) 500",
		"cgroup cgroup system.slice/agent.service 300", "cgroup cgroup user.slice/user-0.slice/session-1.scope 100", "cgroup cgroup system.slice itself 80",
		"cgroup cgroup system.slice/small.service 10", "cgroup cgroup lonely.slice 7", "cgroup cgroup a.slice/b.slice/c.slice/d.slice/e.slice 3")
	if len(memory.Unmeasured) != 0 {
		t.Errorf("unmeasured: %v", memory.Unmeasured)
	}
}

// Tasks in no cgroup of the list, such as threads of the kernel, are a consumer too.
func TestConsumers_CountTasksOutsideOfCgroups(t *testing.T) {
	o := groupFiles(t, map[string]int{"/kubepods": 500, "/system.slice": 20, "/system.slice/x.service": 20})
	c := consumersOf(t, o)
	expectConsumers(t, c.PIDs(), "pods pods (kubepods) 500", "processes kernel threads, and processes in no other cgroup 480", "cgroup cgroup system.slice/x.service 20")
	write(t, o.ProcRoot, "loadavg", "nonsense\n")
	if got := c.PIDs(); len(got.Largest) != 2 || len(got.Unmeasured) != 1 || !strings.Contains(got.Unmeasured[0], "count the tasks of the machine") {
		t.Errorf("%+v", got)
	}
}

func TestConsumers_ReportUncountedTasks(t *testing.T) {
	o := groupFiles(t, map[string]int{"/kubepods": 500, "/system.slice": 20})
	for _, place := range []string{"kubepods", "system.slice"} {
		if err := os.Remove(filepath.Join(o.Hierarchy.Dir("pids", place), "pids.current")); err != nil {
			t.Fatal(err)
		}
	}
	got := consumersOf(t, o).PIDs()
	expectConsumers(t, got, "processes kernel threads, and processes in no other cgroup 1000")
	if len(got.Unmeasured) != 1 || !strings.Contains(got.Unmeasured[0], "enable the pids controller") {
		t.Errorf("unmeasured: %v", got.Unmeasured)
	}
}

// The number of cgroups is bounded, and their names are printable.
func TestConsumers_BoundHostileCgroups(t *testing.T) {
	amounts := map[string]int{"/\x1b[2Jbad\u202e": 9000}
	for i := range 2 * maxGroups {
		amounts[fmt.Sprintf("/%0200d", i)] = 1 + i
	}
	got := consumersOf(t, groupFiles(t, amounts)).Memory()
	if len(got.Largest) != signals.MaxConsumers || len(got.Unmeasured) != 1 || got.Unmeasured[0] != "cgroups beyond the first 512" {
		t.Errorf("%d consumers, unmeasured %v", len(got.Largest), got.Unmeasured)
	}
	for _, c := range got.Largest {
		if len(c.Name) > 128 || strings.ContainsAny(c.Name, "\x1b\u202e") {
			t.Errorf("the name %q", c.Name)
		}
	}
}

// A node that is a cgroup has its own rest, and the memory of the kernel is that of the cgroup.
func TestConsumers_OfNodeBelowRoot(t *testing.T) {
	o := groupFiles(t, map[string]int{"/node": 100, "/node/kubepods": 60, "/node/daemon": 30})
	o.NodeCgroup, o.Places = "/node", nil
	c := consumersOf(t, o)
	expectConsumers(t, c.PIDs(), "pods pods (kubepods) 60", "cgroup cgroup daemon 30", "cgroup cgroup /node itself 10")
	write(t, o.Hierarchy.Dir("memory", "/node"), "memory.stat", "anon 100\nfile 0\nactive_file 0\ninactive_file 0\nshmem 5\nslab_unreclaimable 25\n")
	expectConsumers(t, c.Memory(), "pods pods (kubepods) 60", "cgroup cgroup daemon 30", "kernel slab, unreclaimable 25", "cgroup cgroup /node itself 10", "kernel tmpfs and shared memory 5")
}
