package kill

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// benchEnv is the environment of a benchmark: a fresh pod for each kill.
type benchEnv struct {
	*testing.B
	node   *sandbox.Node
	killer *Killer
	tree   cgroup.Hierarchy
	pods   int
}

func newBenchEnv(b *testing.B) *benchEnv {
	b.Helper()
	sandbox.Need(b)
	tree, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		b.Fatal(err)
	}
	return newBenchEnvIn(b, tree)
}

func newBenchEnvIn(b *testing.B, tree cgroup.Hierarchy) *benchEnv {
	b.Helper()
	node := sandbox.Make(b, "bench", 1<<30)
	killer, err := New(tree)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = killer.Close() })
	return &benchEnv{B: b, node: node, killer: killer, tree: tree}
}

// victim starts a pod of one hog per container. The last one has executed the orders.
func (e *benchEnv) victim(containers int, orders ...string) (*sandbox.Pod, Target) {
	e.Helper()
	e.pods++
	uid := fmt.Sprintf("bench-%d", e.pods)
	names := make([]string, containers)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	p, err := e.node.AddPod(uid, sandbox.Burstable, names...)
	if err != nil {
		e.Fatal(err)
	}
	for i, name := range names {
		h, err := e.node.StartHog(e.Context(), p, name)
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { _ = h.Close() })
		if i < len(names)-1 {
			continue
		}
		for _, order := range orders {
			if _, err := h.Do(e.Context(), order); err != nil {
				e.Fatal(err)
			}
		}
	}
	info, err := os.Lstat(e.tree.Dir("memory", p.Path()))
	if err != nil {
		e.Fatal(err)
	}
	return p, Target{UID: uid, Path: p.Path(), Inode: info.Sys().(*syscall.Stat_t).Ino}
}

// BenchmarkImmediate kills small pods: time from the call until the pod is verified empty, and the
// allocations.
func BenchmarkImmediate(b *testing.B) {
	for _, containers := range []int{1, 2, 5} {
		b.Run(fmt.Sprintf("processes=%d", containers), func(b *testing.B) {
			e := newBenchEnv(b)
			b.ReportAllocs()
			var toSignal []time.Duration
			for b.Loop() {
				b.StopTimer()
				_, target := e.victim(containers)
				b.StartTimer()
				result, err := e.killer.Immediate(b.Context(), target)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				toSignal = append(toSignal, result.ToSignal)
				b.StartTimer()
			}
			b.ReportMetric(float64(median(toSignal).Microseconds()), "µs-to-signal")
		})
	}
}

// BenchmarkBesideASandbox kills a container of 300 MiB beside an exempt sandbox, since every pod of
// a runtime has one. It measures until the last process is gone, and until the memory is free. On a
// hybrid machine the hierarchies can be compared without emulation.
func BenchmarkBesideASandbox(b *testing.B) {
	for _, load := range []string{"", "fork 16", "fork 280", "threads 15", "threads 63"} {
		for name, tree := range trees(b) {
			b.Run(strings.ReplaceAll("one "+load, " ", "+")+"/"+name, func(b *testing.B) {
				e := newBenchEnvIn(b, tree)
				b.ReportAllocs()
				var gone, freed []time.Duration
				for b.Loop() {
					b.StopTimer()
					p, target := e.victim(2, slices.DeleteFunc([]string{"fill 300MiB", load}, func(order string) bool { return order == "" })...)
					target.Exempt = []string{"c0"}
					b.StartTimer()
					begin := time.Now()
					if _, err := e.killer.Immediate(b.Context(), target); err != nil {
						b.Fatal(err)
					}
					gone = append(gone, time.Since(begin))
					e.awaitFreed(p)
					freed = append(freed, time.Since(begin))
				}
				b.ReportMetric(ms(median(gone)), "ms-gone")
				b.ReportMetric(ms(median(freed)), "ms-freed")
			})
		}
	}
}

// BenchmarkMemoryFreed measures from the call until the pod's memory is free (less than a tenth of
// it charged), for a hog of 300 MiB. It measures with and without process_mrelease, on an idle node
// and with twice as many busy processes as CPUs.
func BenchmarkMemoryFreed(b *testing.B) {
	for _, busy := range []bool{false, true} {
		for _, release := range []bool{true, false} {
			b.Run(fmt.Sprintf("busy=%v/mrelease=%v", busy, release), func(b *testing.B) {
				e := newBenchEnv(b)
				e.killer.usesMrelease = release
				if busy {
					e.spin()
				}
				var freed, toSignal []time.Duration
				for b.Loop() {
					b.StopTimer()
					p, target := e.victim(1, "fill 300MiB")
					b.StartTimer()
					begin := time.Now()
					result, err := e.killer.Immediate(b.Context(), target)
					if err != nil {
						b.Fatal(err)
					}
					e.awaitFreed(p)
					freed = append(freed, time.Since(begin))
					toSignal = append(toSignal, result.ToSignal)
				}
				slices.Sort(freed)
				b.ReportMetric(ms(median(freed)), "ms-median")
				b.ReportMetric(ms(freed[len(freed)-1]), "ms-max")
				b.ReportMetric(float64(median(toSignal).Microseconds()), "µs-to-signal")
			})
		}
	}
}

func (e *benchEnv) awaitFreed(p *sandbox.Pod) {
	e.Helper()
	for {
		used, err := p.Usage()
		if err != nil {
			e.Fatal(err)
		}
		if used < 30<<20 {
			return
		}
	}
}

// spin occupies every CPU with busy loops.
func (e *benchEnv) spin() {
	e.Helper()
	p, err := e.node.AddPod("spinners", sandbox.Burstable, "main")
	if err != nil {
		e.Fatal(err)
	}
	for range 2 * runtime.NumCPU() {
		h, err := e.node.StartHog(e.Context(), p, "main")
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { _ = h.Close() })
		if err := h.Send("spin for 1h"); err != nil {
			e.Fatal(err)
		}
	}
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
