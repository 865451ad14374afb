package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// machine writes files below a directory, among them a process's own files in proc.
func machine(t *testing.T, own, mountinfo string, files map[string]string) (proc string) {
	t.Helper()
	dir := t.TempDir()
	files["proc/self/cgroup"], files["proc/self/mountinfo"] = own, fmt.Sprintf(mountinfo, dir)
	for name, text := range files {
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

func TestOwnMemoryLimit_SmallestUpToTheRoot(t *testing.T) {
	const none1, none2 = "9223372036854771712\n", "max\n"
	const mount1 = "35 32 0:32 %s %%s/memory rw,relatime - cgroup cgroup rw,memory\n36 32 0:33 / /nowhere rw - cgroup cgroup rw,devices\n"
	const mount2 = "35 32 0:32 %s %%s/unified rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct {
		name, own, mounts string
		files             map[string]string
		limit             uint64
		limited           bool
	}{
		{"v1, limit of the pod", "4:memory:/kubepods/pod1/c1\n0::/\n", fmt.Sprintf(mount1, "/"), map[string]string{
			"memory/memory.limit_in_bytes": none1, "memory/kubepods/pod1/memory.limit_in_bytes": "268435456\n", "memory/kubepods/pod1/c1/memory.limit_in_bytes": none1,
		}, 256 << 20, true},
		{"v1, in a container", "4:memory:/kubepods/pod1/c1\n", fmt.Sprintf(mount1, "/kubepods/pod1/c1"), map[string]string{
			"memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20, true},
		{"v1, no limit", "4:memory:/user\n", fmt.Sprintf(mount1, "/"), map[string]string{
			"memory/memory.limit_in_bytes": none1, "memory/user/memory.limit_in_bytes": none1}, 0, false},
		{"v1, mount of another cgroup", "4:memory:/kubepods/pod10\n", fmt.Sprintf(mount1, "/kubepods/pod1"), map[string]string{
			"memory/memory.limit_in_bytes": "1\n"}, 0, false},
		{"v2, limit of an ancestor slice", "0::/a.slice/b.service\n", fmt.Sprintf(mount2, "/"), map[string]string{
			"unified/a.slice/memory.max": "1073741824\n", "unified/a.slice/b.service/memory.max": "2147483648\n"}, 1 << 30, true},
		{"v2, in a container", "0::/\n", fmt.Sprintf(mount2, "/") + "36 32 0:33 /../../.. /nowhere rw - cgroup2 cgroup2 rw\n", map[string]string{
			"unified/memory.max": "268435456\n"}, 256 << 20, true},
		{"v2, no limit", "0::/a\n", fmt.Sprintf(mount2, "/"), map[string]string{"unified/a/memory.max": none2}, 0, false},
		{"hybrid", "4:memory:/a\n0::/b\n", fmt.Sprintf(mount1, "/") + fmt.Sprintf("37 32 0:32 / %s/unified rw - cgroup2 cgroup2 rw\n", "%[1]s"), map[string]string{
			"memory/a/memory.limit_in_bytes": "1073741824\n", "unified/b/memory.max": "1\n"}, 1 << 30, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit, limited, err := cgroup.OwnMemoryLimit(machine(t, c.own, c.mounts, c.files))
			if err != nil || limit != c.limit || limited != c.limited {
				t.Errorf("%d, limited %t, %v; want %d, %t", limit, limited, err, c.limit, c.limited)
			}
		})
	}
}

func TestOwnMemoryLeft_BesideWhatStays(t *testing.T) {
	const stat = "anon 100\nfile 5000\nkernel 50\nshmem 7\ninactive_file 1\nactive_file 1\nslab_reclaimable 20\n"
	const older = "anon 100\nfile 5000\nshmem 7\ninactive_file 1\nactive_file 1\nkernel_stack 10\npagetables 10\npercpu 5\nslab 25\nslab_reclaimable 20\n" // before Linux 5.18
	const container = "35 32 0:32 / %s/unified rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct {
		name, own, mounts string
		files             map[string]string
		left              uint64
		limited, fails    bool
	}{
		{"in a container", "0::/\n", container, map[string]string{"unified/memory.max": "1000\n", "unified/memory.stat": stat}, 1000 - 137, true, false},
		{"an older kernel", "0::/\n", container, map[string]string{"unified/memory.max": "1000\n", "unified/memory.stat": older}, 1000 - 137, true, false},
		{"not the limit of the pod", "0::/pod/c\n", container, map[string]string{"unified/pod/memory.max": "1\n", "unified/pod/c/memory.max": "1000\n", "unified/pod/c/memory.stat": stat}, 1000 - 137, true, false},
		{"more than the limit", "0::/\n", container, map[string]string{"unified/memory.max": "10\n", "unified/memory.stat": stat}, 0, true, false},
		{"no limit", "0::/\n", container, map[string]string{"unified/memory.max": "max\n"}, 0, false, false},
		{"the root", "0::/\n", container, map[string]string{}, 0, false, false},
		{"v1", "4:memory:/\n", "35 32 0:32 / %s/memory rw - cgroup cgroup rw,memory\n", map[string]string{"memory/memory.limit_in_bytes": "1\n"}, 0, false, false},
		{"a malformed limit", "0::/\n", container, map[string]string{"unified/memory.max": "much\n"}, 0, false, true},
		{"no statistics", "0::/\n", container, map[string]string{"unified/memory.max": "1000\n"}, 0, false, true},
		{"malformed statistics", "0::/\n", container, map[string]string{"unified/memory.max": "1000\n", "unified/memory.stat": "anon much\n"}, 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, limited, err := cgroup.OwnMemoryLeft(machine(t, c.own, c.mounts, c.files))
			if left != c.left || limited != c.limited || (err != nil) != c.fails {
				t.Errorf("%d, limited %t, %v; want %d, %t", left, limited, err, c.left, c.limited)
			}
		})
	}
	if _, _, err := cgroup.OwnMemoryLeft(t.TempDir()); err == nil {
		t.Error("got no error without /proc")
	}
}

func TestOwnMemoryLimit_UnreadableIsAnError(t *testing.T) {
	if _, _, err := cgroup.OwnMemoryLimit(t.TempDir()); err == nil {
		t.Error("got no error without /proc")
	}
	proc := machine(t, "4:memory:/\n", "35 32 0:32 / %s/memory rw - cgroup cgroup rw,memory\n", map[string]string{"memory/memory.limit_in_bytes": "much\n"})
	if _, _, err := cgroup.OwnMemoryLimit(proc); err == nil {
		t.Error("got no error for a malformed limit")
	}
}
