package stats

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// BenchmarkFlush says what memory.stat costs beside the files that a floor is
// taken from, with 1000 cgroups below the node: at rest, and when each has been
// used since, so that the kernel has to collect what it counted. Its own work
// takes half a second for each read of the latter: give it -benchtime 10x.
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
		b.Run(f.name+"/rest", func(b *testing.B) {
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
