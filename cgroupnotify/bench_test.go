package cgroupnotify

import (
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// benchNotifier returns a notifier of a sandbox node and the memory of its cgroup.
func benchNotifier(b *testing.B) (*sandbox.Node, *Notifier, *cgroup.Memory) {
	box := sandbox.Make(b, "notify", 512*mib)
	h := hierarchy(b)
	m, err := cgroup.OpenMemory(h, box.Path())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	return box, open(b, Options{Hierarchy: h, NodeCgroup: box.Path()}), m
}

func observe(b *testing.B, m *cgroup.Memory) (o signals.Observations) {
	u, err := m.Read()
	if err != nil {
		b.Fatal(err)
	}
	seen := signals.Observed(512*mib-signals.Amount(u.WorkingSet()), 512*mib, time.Now())
	o[signals.MemoryAvailable], o[signals.AllocatableMemoryAvailable] = seen, seen
	return o
}

// BenchmarkFollow measures Follow after a check without changes: two lines of the node, one of
// kubepods.
func BenchmarkFollow(b *testing.B) {
	_, n, m := benchNotifier(b)
	node := observe(b, m)
	lines := []signals.Line{{Signal: signals.MemoryAvailable, At: 100 * mib}, {Signal: signals.MemoryAvailable, At: 200 * mib},
		{Signal: signals.AllocatableMemoryAvailable, At: 100 * mib}}
	n.Follow(&node, lines)
	n.arming.Wait()
	n.Follow(&node, lines)
	b.ReportAllocs()
	for b.Loop() {
		n.Follow(&node, lines)
	}
}

// BenchmarkArm moves a line: the cost on the loop, and the kernel's time beside it.
func BenchmarkArm(b *testing.B) {
	onV1(b)
	_, n, m := benchNotifier(b)
	node := observe(b, m)
	var follow time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		n.Follow(&node, []signals.Line{{Signal: signals.MemoryAvailable, At: signals.Amount(100+i%2*100) * mib}})
		follow += time.Since(begin)
		n.arming.Wait()
	}
	b.ReportMetric(float64(follow.Nanoseconds())/float64(b.N), "ns-on-the-loop/op")
}

// BenchmarkWakeWait measures a wake by this program and the wait that it ends.
func BenchmarkWakeWait(b *testing.B) {
	n := open(b, Options{Hierarchy: hierarchy(b)})
	b.ReportAllocs()
	for b.Loop() {
		n.Wake()
		n.Wait(time.Now().Add(time.Minute), true)
	}
}

// BenchmarkWakeFromBeside measures a wake by another goroutine.
func BenchmarkWakeFromBeside(b *testing.B) {
	n := open(b, Options{Hierarchy: hierarchy(b)})
	requests := make(chan struct{})
	go func() {
		for range requests {
			n.Wake()
		}
	}()
	defer close(requests)
	for b.Loop() {
		requests <- struct{}{}
		n.Wait(time.Now().Add(time.Minute), true)
	}
}

// BenchmarkTimer measures the delay of a wait that ends at its deadline.
func BenchmarkTimer(b *testing.B) {
	n := open(b, Options{Hierarchy: hierarchy(b)})
	for _, wait := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond} {
		b.Run(wait.String(), func(b *testing.B) {
			var late time.Duration
			for b.Loop() {
				until := time.Now().Add(wait)
				n.Wait(until, wait >= 20*time.Millisecond)
				late += time.Since(until)
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late/op")
		})
	}
}
