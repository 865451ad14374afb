package kill

import (
	"testing"

	"github.com/containerd/cgroups/v3/cgroup1"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// BenchmarkList lists the 52 processes of a pod with two containers, as a kill does several times:
// with this package, and with containerd's library (docs/internals/decisions/003-own-kill.md).
func BenchmarkList(b *testing.B) {
	e := newBenchEnv(b)
	if e.tree.Version != cgroup.V1 {
		b.Skip("the library's v1 side")
	}
	p, target := e.victim(2, "fork 25")
	for pids, err := p.PIDs(); len(pids) < 52; pids, err = p.PIDs() {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a, err := e.killer.begin(e.killer.immediateWorkspaces[0], target)
			if err != nil {
				b.Fatal(err)
			}
			err = a.list(&a.w.pids)
			a.end()
			if err != nil || len(a.w.pids) != 52 {
				b.Fatal(len(a.w.pids), err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		memory := func() ([]cgroup1.Subsystem, error) {
			return []cgroup1.Subsystem{cgroup1.NewMemory(e.tree.Root)}, nil
		}
		for b.Loop() {
			c, err := cgroup1.Load(cgroup1.StaticPath(target.Path), cgroup1.WithHierarchy(memory))
			if err != nil {
				b.Fatal(err)
			}
			list, err := c.Processes(cgroup1.Memory, true)
			if err != nil || len(list) != 52 {
				b.Fatal(len(list), err)
			}
		}
	})
}
