package cgroupnotify

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// onV1 skips a test on machines without version 1.
func onV1(t testing.TB) {
	t.Helper()
	if v := hierarchy(t).Version; v != cgroup.V1 {
		t.Skipf("cgroup %s has no thresholds of usage", v)
	}
}

func TestThresholds_WakeInBothDirections(t *testing.T) {
	onV1(t)
	r := newEnv(t, Options{})
	r.follow(312 * mib) // from 200 MiB on
	h := r.box.Run(t, r.pod, "main", "fill 150MiB")
	if !r.quiet(signals.ByCrossing) {
		t.Error("woken 50 MiB before the line")
	}
	for _, c := range []struct {
		command string
		park    bool
	}{{"fill 100MiB", true}, {"release", true}, {"fill 250MiB", false}, {"release", false}} {
		if _, err := h.Do(t.Context(), c.command); err != nil {
			t.Fatal(err)
		}
		r.park = c.park
		r.await(signals.ByCrossing)
	}
}

func TestThresholds_WakeForCrossingBeforeRegistration(t *testing.T) {
	onV1(t)
	r := newEnv(t, Options{})
	before := r.observe()
	r.box.Run(t, r.pod, "main", "fill 250MiB")
	lines := []signals.Line{{Signal: signals.MemoryAvailable, At: 312 * mib}}
	r.Follow(&before, lines) // the check preceded the fill
	r.await(signals.ByCrossing)
	// A crossing that the check observed needs no wake.
	r.follow(400 * mib)
	if !r.quiet(signals.ByCrossing) {
		t.Error("woken for a crossing that the check has observed")
	}
}

// TestThresholds_RearmAfterUsagePassedLevel covers a level slightly below the line, due to
// a decrease of usage during the registration or to later page cache. The level is armed again,
// however near it is, and is signalled at the line.
func TestThresholds_RearmAfterUsagePassedLevel(t *testing.T) {
	onV1(t)
	r := newEnv(t, Options{})
	h := r.box.Run(t, r.pod, "main", "fill 150MiB")
	const ahead = 64 << 10 // of usage
	follow := func() (level uint64) {
		node := r.observe()
		lines := []signals.Line{{Signal: signals.MemoryAvailable, At: node[signals.MemoryAvailable].Available - ahead}}
		for range 2 {
			r.Follow(&node, lines)
			r.arming.Wait()
		}
		return r.lines[0].lines[0].level
	}
	low := follow()
	if _, err := h.Do(t.Context(), "fill 800KiB"); err != nil { // past the level, but not far enough to move it
		t.Fatal(err)
	}
	if level := follow(); level <= low {
		t.Fatalf("the level is %d after usage has passed %d", level, low)
	}
	r.quiet(signals.ByCrossing)
	if _, err := h.Do(t.Context(), "fill 8MiB"); err != nil {
		t.Fatal(err)
	}
	r.await(signals.ByCrossing)
}

// TestThresholds_MoveWithInactiveFile checks that reclaimable page cache moves the level,
// because the line is an amount of available memory.
func TestThresholds_MoveWithInactiveFile(t *testing.T) {
	onV1(t)
	r := newEnv(t, Options{})
	r.follow(212 * mib)
	first := r.lines[0].lines[0].level
	// The file is written once and never read, so its pages are never activated.
	dir, err := os.MkdirTemp("/var/tmp", "plimsoll-") // a disk, unlike some temporary directories
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	writer := exec.Command("dd", "if=/dev/zero", "of="+dir+"/file", "bs=1M", "count=200", "conv=fsync", "status=none")
	started, err := r.box.Start(r.pod, "main", writer)
	if err != nil {
		t.Fatal(err)
	}
	if <-started.Done(); !started.State().Success() {
		t.Fatalf("%v: %v", writer.Args, started.State())
	}
	var u cgroup.MemoryUsage
	for end := time.Now().Add(timeout); u.InactiveFile < 150*mib && time.Now().Before(end); {
		r.collect() // else a cgroup's counters may stand still
		if u, err = r.node.Read(); err != nil {
			t.Fatal(err)
		}
	}
	r.follow(212 * mib)
	second := r.lines[0].lines[0].level
	if grew := second - first; u.InactiveFile < 150*mib || second < first || distance(grew, u.InactiveFile) > 60*mib {
		t.Fatalf("the level moved from %d to %d with %d bytes of inactive file", first, second, u.InactiveFile)
	}
	if a := r.observe()[signals.MemoryAvailable].Available; a < 300*mib || !r.quiet(signals.ByCrossing) {
		t.Errorf("woken by page cache with %d bytes available", a)
	}
}

func TestThresholds_FollowRecreatedCgroup(t *testing.T) {
	onV1(t)
	var reports []string
	o := withoutMachine(t)
	o.Report = func(s Source) { reports = append(reports, fmt.Sprint(s.Name, " ", s.Where, " ", s.Err == nil)) }
	r := newEnv(t, o)
	var node signals.Observations
	check := func() {
		node = r.observe()
		node[signals.AllocatableMemoryAvailable] = node[signals.MemoryAvailable]
		r.retryAt = time.Time{}
		r.Follow(&node, []signals.Line{{Signal: signals.AllocatableMemoryAvailable, At: 312 * mib}})
		r.arming.Wait()
	}
	check()
	check()
	remove(t, r.pod.ContainerDir("memory", "main"), r.pod.Dir("memory"),
		r.box.Dir("memory")+"/kubepods/burstable", r.box.Dir("memory")+"/kubepods")
	for end := time.Now().Add(timeout); len(reports) == 0 && time.Now().Before(end); {
		if w := r.Wait(time.Now().Add(10*time.Millisecond), false); w != 0 { // the kernel signals from its own worker
			t.Fatalf("woken by %v for a removed cgroup", w.Names())
		}
	}
	if s := r.source(Threshold, Kubepods); s.Err == nil || !strings.Contains(s.Err.Error(), "removed") {
		t.Errorf("%+v", s)
	}
	check()
	if err := r.pod.LimitMemory(300 * mib); err != nil { // recreates the pod
		t.Fatal(err)
	}
	if _, err := r.box.AddPod("hog", sandbox.Burstable, "main"); err != nil {
		t.Fatal(err)
	}
	check()
	check()
	if s := r.source(Threshold, Kubepods); s.Err != nil {
		t.Fatal(s.Err)
	}
	r.box.Run(t, r.pod, "main", "fill 250MiB")
	r.await(signals.ByCrossing)
	want := "memory-threshold kubepods true memory-oom kubepods true"
	if got := strings.Join(reports, " "); !strings.HasSuffix(got, want) || strings.Count(got, "false") < 2 {
		t.Errorf("got reports %s", got)
	}
}

// TestThresholds_LeakNothing checks that moving lines 10 000 times leaks nothing. It uses many
// cgroups at once, because each registration waits for the kernel.
func TestThresholds_LeakNothing(t *testing.T) {
	onV1(t)
	const nodes, rounds = 100, 100
	box := sandbox.Make(t, "notify", 64*mib)
	h := hierarchy(t)
	runtime.GC()
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	all := make([]*Notifier, nodes)
	for i := range all {
		p, err := box.AddPod(fmt.Sprint("p", i), sandbox.Guaranteed, "main")
		if err != nil {
			t.Fatal(err)
		}
		if all[i], err = Open(Options{Hierarchy: h, NodeCgroup: p.Path()}); err != nil {
			t.Fatal(err)
		}
	}
	armed := 0
	for round := range rounds {
		var node signals.Observations
		node[signals.MemoryAvailable] = signals.Observed(64*mib, 64*mib, time.Now())
		for _, n := range all {
			n.Follow(&node, []signals.Line{{Signal: signals.MemoryAvailable, At: signals.Amount(1+round%2*40) * mib}})
		}
		for _, n := range all {
			n.arming.Wait()
			if n.lines[0].lines[0].next != nil {
				armed++
			}
		}
	}
	for _, n := range all {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if armed != nodes*rounds {
		t.Errorf("armed %d times, want %d", armed, nodes*rounds)
	}
	expectNoLeaks(t, fds, goroutines)
}
