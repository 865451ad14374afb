package stats

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func BenchmarkObserve(b *testing.B) {
	box := sandboxNode(b, sandbox.PidsMax(100))
	for _, c := range []struct {
		name string
		o    Options
		kind signals.Kind
	}{
		{"machine/periodic", Options{}, signals.Periodic},
		{"machine/early", Options{}, signals.Early},
		{"cgroup/periodic", Options{NodeCgroup: box.Path(), KubeReserved: mib}, signals.Periodic},
		{"cgroup/early", Options{NodeCgroup: box.Path(), KubeReserved: mib}, signals.Early},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := openNode(b, c.o)
			var into signals.Observations
			b.ReportAllocs()
			for b.Loop() {
				n.Observe(c.kind, noon, &into)
			}
		})
	}
}

// BenchmarkMeasure110Pods measures 110 pods of 2 containers each. "floor" is the kernel's part:
// usage and memory.stat of the same 330 cgroups, read from open descriptors and not parsed.
func BenchmarkMeasure110Pods(b *testing.B) {
	box := sandboxNode(b)
	pods := manyPods(b, box, 110)
	h, err := cgroup.Detect(box.Root())
	if err != nil {
		b.Fatal(err)
	}
	p := OpenPods(h, box.Path())
	defer p.Close()
	into := p.Measure(pods, nil)
	b.Run("floor", func(b *testing.B) { preadFloor(b, p, pods) })
	b.Run("breakdown", func(b *testing.B) { // for a recording, beside the loop
		d := OpenBreakdowns(h, cgroup.NewPodPlaces(h, box.Path()))
		defer d.Close()
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n = 0
			d.Read(pods, func(*signals.Pod, *cgroup.Breakdown) { n++ })
		}
		if n != len(pods) {
			b.Errorf("%d pods were read", n)
		}
	})
	b.Run("memory", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			into = p.MeasureMemory(pods, into[:0])
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			into = p.Measure(pods, into[:0])
		}
	})
	b.Run("prepare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Prepare(pods)
		}
	})
	b.Run("held", func(b *testing.B) { // after a kill by the kernel, beside the loop
		r := NewHeldReader(h, cgroup.NewPodPlaces(h, box.Path()), box.Path(), "/proc")
		for b.Loop() {
			if got := r.Read(); !got.Complete {
				b.Fatal("incomplete")
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh := OpenPods(h, box.Path())
			fresh.Measure(pods, into[:0])
			fresh.Close()
		}
	})
}

func preadFloor(b *testing.B, p *Pods, pods []signals.Pod) {
	names := []string{"memory.usage_in_bytes", "memory.stat"}
	if p.h.Version == cgroup.V2 {
		names[0] = "memory.current"
	}
	var files []int
	openFiles := func(path string) {
		for _, name := range names {
			fd, err := unix.Open(filepath.Join(p.h.Dir("memory", path), name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			files = append(files, fd)
		}
	}
	for i := range pods {
		c, _ := p.Cgroup(pods[i].UID)
		openFiles(c.Path)
		for _, k := range c.Containers {
			openFiles(k.Path)
		}
	}
	buf := make([]byte, 8<<10)
	b.ReportAllocs()
	for b.Loop() {
		for _, fd := range files {
			if _, err := unix.Pread(fd, buf, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}

// BenchmarkStalls110Pods finds stalls among 110 pods of 2 containers each: in a first call, and
// without any stall since the last one.
func BenchmarkStalls110Pods(b *testing.B) {
	box := sandboxNode(b)
	pods := manyPods(b, box, 110)
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			openStalls(b, box).Since(pods, noon)
		}
	})
	b.Run("later", func(b *testing.B) {
		s := openStalls(b, box)
		b.ReportAllocs()
		for b.Loop() {
			s.Since(pods, noon)
		}
	})
}
