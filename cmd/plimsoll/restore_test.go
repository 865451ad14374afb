package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/cgroup"
	"plimsoll.dev/plimsoll/config"
	"plimsoll.dev/plimsoll/test/sandbox"
)

// What an agent has left behind that was killed during a kill is restored at the start
// of the next one.
func TestOpenNode_RestoresPidsMax(t *testing.T) {
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != cgroup.V1 {
		t.Skip("v2 ends a pod without pids.max")
	}
	box := sandbox.Make(t, "restore", 64<<20)
	pod, err := box.AddPod("6f1d0d7c-2b4e-4a51-9c8a-000000000004", sandbox.BestEffort, "main")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(pod.Dir("pids"), "pids.max")
	if err := os.WriteFile(file, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(pod.Dir("pids"), "user.plimsoll.pids-max", []byte("42\n"), 0); err != nil {
		t.Fatal(err)
	}
	n, err := openNode(&config.Agent{ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", NodeCgroup: box.Path()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	if text, err := os.ReadFile(file); string(text) != "42\n" || err != nil {
		t.Errorf("pids.max is %q, %v", text, err)
	}
}
