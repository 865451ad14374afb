package stats

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestUsageOf_CorrectsStaleCounters checks that fast-growing page cache is observed as
// such at every check, though the counters of the node's cgroup stand still at times. The
// available amount stays close to the counters of the processes' own cgroup. That is the
// container's, or with crun the one below it.
func TestUsageOf_CorrectsStaleCounters(t *testing.T) {
	t.Run("processes in the container", func(t *testing.T) { expectCurrent(t, "/app", 1, 100*mib) })
	t.Run("processes in a nested cgroup", func(t *testing.T) { expectCurrent(t, "/app/container", 50, 50*mib) })
}

// expectCurrent reads the counters in place after the given number of checks. Frequent reads
// make the ancestors' counters stand still. With rare reads they stand still unless the checks
// read them.
func expectCurrent(t *testing.T, place string, after int, late signals.Amount) {
	const pace, checks = time.Millisecond, 2000
	box := sandboxNode(t)
	p := addPod(t, box, "streamer", sandbox.Burstable, "app")
	n := openNode(t, Options{NodeCgroup: box.Path(), KubeReserved: 100 * mib})
	pods := OpenPods(n.Hierarchy(), box.Path())
	t.Cleanup(pods.Close)
	n.SetPods(pods)
	h := box.Run(t, p, "app")
	if place != "/app" {
		nest(t, n.Hierarchy().Dir("memory", p.Path()+"/app"), n.Hierarchy().Dir("memory", p.Path()+place), h)
	}
	pods.Prepare([]signals.Pod{{UID: "streamer"}})
	own, err := cgroup.OpenMemory(n.Hierarchy(), p.Path()+place)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	ended := growCache(t, h)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var maxOff, maxCache signals.Amount
	stale, checked, compared := 0, 0, 0
	grown := map[time.Time]signals.Amount{} // during the check at that time: the usage of a value may be older than its page cache
	for checked < checks || compared < checks/after/2 || maxCache < 100*mib {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the growth ended (%v) after %d checks, and page cache of at most %d MiB", err, checked, maxCache/mib)
		case <-tick.C:
		}
		before, err := own.Usage() // updates no counter
		if err != nil {
			t.Fatal(err)
		}
		collected, at := pods.countedAt, time.Now()
		var seen signals.Observations
		n.Observe(signals.Early, at, &seen)
		usage, err := own.Usage()
		if err != nil {
			t.Fatal(err)
		}
		grown[at] = max(signals.Amount(usage)-signals.Amount(before), 0)
		if checked++; checked%after != 0 {
			continue
		}
		u, err := own.Read()
		if err != nil || !seen[signals.MemoryAvailable].Known {
			t.Fatalf("%v, %+v", err, seen[signals.MemoryAvailable])
		}
		if again, err := own.Usage(); err != nil || apart(again, u.Usage) > late/4 {
			continue // the page cache was dropped between the two reads
		}
		compared++
		left := 512*mib - signals.Amount(u.Usage-u.ActiveFile-u.InactiveFile)
		off := seen[signals.MemoryAvailable].Headroom() - left
		maxOff, maxCache = max(maxOff, off-grown[seen[signals.MemoryAvailable].Time], -off), max(maxCache, signals.Amount(u.File))
		if pods.countedAt != collected {
			stale++
		}
	}
	t.Logf("%d checks, at most %d MiB of page cache, stale counters at %d, available amount off by at most %d MiB", checked, maxCache/mib, stale, maxOff/mib)
	if maxOff > late {
		t.Errorf("the available amount is off by %d MiB, want at most %d", maxOff/mib, late/mib)
	}
}

// growCache has a process allocate memory, and then grow page cache until the test ends. The channel has the error if the
// growth ends before.
func growCache(t *testing.T, h *sandbox.Hog) chan error {
	t.Helper()
	// An observed value may be older than a check: this memory must not grow. Page cache does not change it.
	if _, err := h.Do(t.Context(), "fill 150MiB"); err != nil {
		t.Fatal(err)
	}
	growth := "random 300MiB in " + onDisk + " for 10m" // longer than the test
	if err := h.Send(growth); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Await(ctx, growth)
		ended <- err
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return ended
}

// apart returns the difference of two amounts.
func apart(a, b uint64) signals.Amount { return signals.Amount(max(a, b) - min(a, b)) }

// nest moves a container's only process into a child of the container's cgroup, with memory
// accounting.
func nest(t *testing.T, container, inner string, h *sandbox.Hog) {
	t.Helper()
	move(t, h, inner)
	control := container + "/cgroup.subtree_control"
	if _, absent := os.Stat(control); absent != nil { // version 1
		return
	}
	if err := os.WriteFile(control, []byte("+memory"), 0o644); err != nil { //nolint:gosec // a kernel file
		t.Fatal(err)
	}
}

// move creates a cgroup and moves a process into it.
func move(t *testing.T, h *sandbox.Hog, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(h.Process.PID)), 0o644); err != nil { //nolint:gosec // a kernel file
		t.Fatal(err)
	}
}

// TestPods_OpensInnerCgroupOfContainer checks that crun's child of a container's cgroup is
// opened with it. Children created by the container itself, several or without a memory
// controller, are not opened and not searched for repeatedly.
func TestPods_OpensInnerCgroupOfContainer(t *testing.T) {
	box := sandboxNode(t)
	container := addPod(t, box, "x", sandbox.Burstable, "app").ContainerDir("memory", "app")
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	defer p.Close()
	free := p.free
	var last *pod
	for _, tc := range []struct {
		change func(string, os.FileMode) error
		dir    string
		inner  int
	}{{nil, "", 0}, {os.Mkdir, "container", 1}, {os.Mkdir, "other", 0}, {unmake, "other", 1}, {unmake, "container", 0}} {
		if tc.change != nil {
			if err := tc.change(container+"/"+tc.dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if box.Version() == 2 && tc.inner == 1 { // the memory controller is not enabled there
			tc.inner = 0
		}
		for again := range 2 {
			p.Prepare([]signals.Pod{{UID: "x"}})
			if again == 1 && p.known["x"] != last {
				t.Errorf("%s: the pod was reopened", tc.dir)
			}
			last = p.known["x"]
		}
		if got, want := free-p.free, 2*groupDescriptors+tc.inner*innerDescriptors; got != want {
			t.Errorf("%s: %d descriptors stay open, want %d", tc.dir, got, want)
		}
	}
}

func unmake(dir string, _ os.FileMode) error { return os.Remove(dir) }
