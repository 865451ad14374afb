package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/live"
)

// container writes the files of a process in a container with a memory limit, and returns its /proc.
func container(t *testing.T, limit, stat string) (proc string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "35 32 0:32 / " + dir + "/cgroup rw - cgroup2 cgroup2 rw\n",
		"cgroup/memory.max": limit, "cgroup/memory.stat": stat} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "proc")
}

// A command that may end the agent with it does not begin.
func TestCheckRoom_BesideAgent(t *testing.T) {
	dir, _ := recorded(t)
	file := filepath.Join(dir, "0000000002.segment")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 8<<20); err != nil {
		t.Fatal(err)
	}
	used := func(mebibytes int) string {
		return fmt.Sprintf("anon %d\nfile 900000000\nkernel 0\nactive_file 0\ninactive_file 0\n", mebibytes<<20)
	}
	for _, tc := range []struct {
		about, limit, stat string
		top, export, whole bool
	}{
		{"much is left", "268435456\n", used(100), true, true, true},
		{"enough for 64 MiB and a half", "268435456\n", used(256 - 32 - 96), true, true, true},
		{"less than that", "268435456\n", used(256 - 32 - 95), true, true, false},
		{"enough for one segment and a half", "268435456\n", used(256 - 32 - 12), true, true, false},
		{"less than that", "268435456\n", used(256 - 32 - 11), true, false, false},
		{"enough for top", "268435456\n", used(256 - 32), true, false, false},
		{"less than that", "268435456\n", used(256 - 31), false, false, false},
		{"no limit", "max\n", used(1000), true, true, true},
		{"an unreadable limit", "much\n", used(1000), true, true, true},
		{"unreadable statistics", "268435456\n", "", true, true, true},
	} {
		proc := container(t, tc.limit, tc.stat)
		o := top{dir: dir, output: "json", proc: proc}
		for command, got := range map[string]struct {
			err error
			may bool
		}{"top": {o.run(context.Background(), io.Discard, nil), tc.top}, "export": {checkExportRoom(proc, dir), tc.export}, "report": {checkWholeRoom(proc, 64<<20), tc.whole}} {
			if (got.err == nil) != got.may || got.err != nil && !strings.Contains(got.err.Error(), "raise the limit (agent.resources.limits.memory of the chart)") {
				t.Errorf("%s, %s: %v", tc.about, command, got.err)
			}
		}
	}
	if err := checkExportRoom(container(t, "1\n", used(1)), dir+"/none"); err == nil {
		t.Error("a directory without segments needs memory too")
	}
	_ = live.State{}
}
