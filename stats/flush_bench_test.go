package stats

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// BenchmarkFlush compares the cost of memory.stat with that of other files, with 1000 cgroups
// below the node. It measures idle cgroups, and cgroups used since the last read, which the
// kernel must collect. Its setup takes half a second per read of the latter: use -benchtime
// 10x.
func BenchmarkFlush(b *testing.B) {
	box := sandboxNode(b)
	pod := addPod(b, box, "x", sandbox.Burstable, "app")
	groups := make([]string, 1000)
	for i := range groups {
		groups[i] = filepath.Join(pod.Dir("memory"), strconv.Itoa(i))
		if err := os.Mkdir(groups[i], 0o755); err != nil {
			b.Fatal(err)
		}
	}
	h := box.Run(b, pod, "app")
	use := func(b *testing.B) {
		for _, g := range groups {
			if err := os.WriteFile(filepath.Join(g, "cgroup.procs"), []byte(strconv.Itoa(h.Process.PID)), 0); err != nil { //nolint:gosec // a kernel file
				b.Fatal(err)
			}
			if _, err := h.Do(b.Context(), "dip 256KiB for 0s"); err != nil {
				b.Fatal(err)
			}
		}
	}
	o, err := Options{NodeCgroup: box.Path()}.Resolve()
	if err != nil {
		b.Fatal(err)
	}
	usage := limitFiles[o.Hierarchy.Version].usage
	for _, f := range []struct{ name, path string }{
		{"root/stat", filepath.Join(o.Hierarchy.Dir("memory", "/"), "memory.stat")},
		{"node/stat", filepath.Join(box.Dir("memory"), "memory.stat")},
		{"node/usage", filepath.Join(box.Dir("memory"), usage)},
		{"meminfo", "/proc/meminfo"},
	} {
		file, err := cgroup.OpenFile(f.path)
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		buf := cgroup.NewBuffer()
		read := func(b *testing.B) {
			if _, err := file.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(f.name+"/idle", func(b *testing.B) {
			for b.Loop() {
				read(b)
			}
		})
		b.Run(f.name+"/used", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				use(b)
				b.StartTimer()
				read(b)
			}
		})
	}
}
