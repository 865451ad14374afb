package stats

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// fillVariable names the file that this binary fills before it exits, if the variable is set.
const fillVariable = "PLIMSOLL_TEST_FILL"

// fillIfAsked writes 64 MiB to a file and exits, like a crashing container.
func fillIfAsked() {
	name := os.Getenv(fillVariable)
	if name == "" {
		return
	}
	if err := os.WriteFile(name, make([]byte, 64<<20), 0o600); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// TestPods_HeldWithoutProcesses checks that files in memory are charged to a pod without
// processes, and that page cache of a disk does not count as held.
func TestPods_HeldWithoutProcesses(t *testing.T) {
	box := sandbox.Make(t, "held", 256<<20)
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
		held     bool
	}{
		{"6f1d0d7c-2b4e-4a51-9c8a-000000000201", inMemory, true},
		{"6f1d0d7c-2b4e-4a51-9c8a-000000000202", onDisk, st.Type == tmpfs},
	} {
		pod, err := box.AddPod(c.uid, sandbox.Burstable, "main")
		if err != nil {
			t.Fatal(err)
		}
		fill := exec.Command(os.Args[0])
		fill.Env = append(os.Environ(), fillVariable+"="+filepath.Join(c.dir, "file"))
		started, err := box.Start(pod, "main", fill)
		if err != nil {
			t.Fatal(err)
		}
		if <-started.Done(); !started.State().Success() {
			t.Fatalf("fill %s: %v", c.dir, started.State())
		}
		got := p.Measure([]signals.Pod{{UID: c.uid}}, nil)[0].Usage
		if got == nil || got.Processes != signals.Of(signals.PIDs(0)) {
			t.Fatalf("%+v, want no process", got)
		}
		if held := p.Held(c.uid); (held >= 60<<20) != c.held || !c.held && held > 4<<20 {
			t.Errorf("%s: %d bytes are held", c.dir, held)
		}
	}
	if p.Held("none") != 0 {
		t.Error("a pod without a cgroup holds memory")
	}
}
