package stats

import (
	"syscall"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/hog"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TestPods_ChargesFilesInMemoryWithoutProcesses checks that files in memory are charged to a
// pod without processes, and that page cache of a disk is not counted.
func TestPods_ChargesFilesInMemoryWithoutProcesses(t *testing.T) {
	box := sandbox.Make(t, "charged", 256<<20)
	inMemory, onDisk := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", inMemory, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(inMemory, 0); err != nil {
			t.Error(err)
		}
	})
	var st syscall.Statfs_t
	if err := syscall.Statfs(onDisk, &st); err != nil {
		t.Fatal(err)
	}
	const tmpfs = 0x01021994
	p := OpenPods(openNode(t, Options{}).Hierarchy(), box.Path())
	t.Cleanup(p.Close)
	for _, c := range []struct {
		uid, dir string
		charged  bool
	}{
		{"6f1d0d7c-2b4e-4a51-9c8a-000000000201", inMemory, true},
		{"6f1d0d7c-2b4e-4a51-9c8a-000000000202", onDisk, st.Type == tmpfs},
	} {
		pod, err := box.AddPod(c.uid, sandbox.Burstable, "main")
		if err != nil {
			t.Fatal(err)
		}
		started, err := box.Start(pod, "main", hog.Command("keep 64MiB in "+c.dir))
		if err != nil {
			t.Fatal(err)
		}
		if <-started.Done(); !started.State().Success() {
			t.Fatalf("fill %s: %v", c.dir, started.State())
		}
		got := p.Measure([]signals.Pod{{UID: c.uid}}, nil)[0].Usage
		if got == nil || got.Processes != signals.Of(signals.PIDs(0)) {
			t.Fatalf("got %+v, want no process", got)
		}
		if got := p.Unreclaimable(c.uid); (got >= 60<<20) != c.charged || !c.charged && got > 4<<20 {
			t.Errorf("%s: got %d bytes, want charged %t", c.dir, got, c.charged)
		}
	}
	if p.Unreclaimable("none") != 0 {
		t.Error("got memory of a pod without a cgroup")
	}
}
