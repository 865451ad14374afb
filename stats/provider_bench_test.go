package stats

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/test/harness/cluster"
)

// BenchmarkSample compares the cost of one measurement of 16 pods (48 cgroups) on a real
// containerd by provider. The cgroup provider runs on the loop, the others beside it. cpu-µs is
// the CPU time of this process. runtime-µs is the CPU time of containerd and its shims, with a
// resolution of 10 ms in all. A single one, as by -bench 'Sample/cri$', reports its resident
// memory.
func BenchmarkSample(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	n := cluster.Make(b, cluster.Options{Components: cluster.Containerd}).Node
	pods := make([]signals.Pod, 16)
	for i := range pods {
		p, err := n.AddPod(ctx, cluster.Hog("p"+strconv.Itoa(i), "fork 3"))
		if err != nil {
			b.Fatal(err)
		}
		pods[i].UID = p.UID()
	}
	b.Run("cgroup", func(b *testing.B) {
		h, err := cgroup.Detect("/sys/fs/cgroup")
		if err != nil {
			b.Fatal(err)
		}
		p := OpenPods(h, n.Cgroup)
		defer p.Close()
		into := p.Measure(pods, nil)
		sampled(b, n, func() (int, error) { into = p.Measure(pods, into[:0]); return len(into), p.Err() })
	})
	b.Run("cri", func(b *testing.B) {
		runtime, err := cri.Open(cri.Options{Endpoint: n.Socket})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = runtime.Close() }()
		sampled(b, n, func() (int, error) { u, err := queryRuntime(ctx, runtime); return len(u), err })
	})
	b.Run("cadvisor", func(b *testing.B) {
		p, err := OpenCAdvisor(n.Cgroup, Sampling{})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		sampled(b, n, func() (int, error) { u, err := queryCAdvisor(p.reader, 0); return len(u), err })
	})
}

// sampled benchmarks a measurement of all pods.
func sampled(b *testing.B, n *cluster.Node, sample func() (pods int, err error)) {
	b.ReportAllocs()
	others := processesBeside(b, n.Containerd.PID())
	ours, theirs := cpuOf(b, os.Getpid()), cpuOf(b, others...)
	for b.Loop() {
		if pods, err := sample(); err != nil || pods != 16 {
			b.Fatalf("%d pods, %v", pods, err)
		}
	}
	times := float64(b.N)
	b.ReportMetric(float64((cpuOf(b, os.Getpid())-ours).Microseconds())/times, "cpu-µs/op")
	b.ReportMetric(float64((cpuOf(b, others...)-theirs).Microseconds())/times, "runtime-µs/op")
	b.ReportMetric(residentMiB(b), "rss-MiB")
}

// processesBeside returns the processes in the memory cgroup of a process.
func processesBeside(b *testing.B, pid int) []int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		b.Fatal(err)
	}
	paths, err := cgroup.ParseCgroupFile(text)
	if err != nil {
		b.Fatal(err)
	}
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		b.Fatal(err)
	}
	path := paths["memory"]
	if h.Version == cgroup.V2 {
		path = paths[""]
	}
	text, err = os.ReadFile(filepath.Join(h.Dir("memory", path), "cgroup.procs"))
	if err != nil {
		b.Fatal(err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// cpuOf returns the CPU time of all threads of processes; an ended process counts 0.
func cpuOf(b *testing.B, pids ...int) (sum time.Duration) {
	b.Helper()
	if len(pids) == 1 && pids[0] == os.Getpid() {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const tick = 10 * time.Millisecond // USER_HZ, on every architecture
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 12 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			sum += time.Duration(user+system) * tick
		}
	}
	return sum
}

func residentMiB(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / float64(mib)
}
