package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func known(v uint64) Counted { return Counted{v, true} }

func TestParseKinds_PerVersion(t *testing.T) {
	for about, tc := range map[string]struct {
		text string
		v    Version
		want Breakdown
	}{
		"v2": {"anon 10\nfile 20\nkernel 7\nshmem 3\nslab 5\ninactive_file 4\n", V2, Breakdown{WorkingSet: known(96), Anon: known(10), File: known(20), Shmem: known(3), Kernel: known(7)}},
		"v2 before Linux 5.18": {"anon 10\nfile 20\nkernel_stack 1\nshmem 3\npercpu 2\nslab 5\npagetables 4\ninactive_file 400\n", V2,
			Breakdown{WorkingSet: known(0), Anon: known(10), File: known(20), Shmem: known(3), Kernel: known(12)}},
		"v2 with little": {"anon 10\nfile 20\ninactive_file 4\n", V2, Breakdown{WorkingSet: known(96), Anon: known(10), File: known(20)}},
		"v1": {"rss 1\ncache 1\nshmem 1\ninactive_file 1\nswap 1\ntotal_rss 10\ntotal_cache 20\ntotal_shmem 3\ntotal_swap 6\ntotal_inactive_file 4\nkernel 9\n", V1,
			Breakdown{WorkingSet: known(96), Anon: known(10), File: known(20), Shmem: known(3), Swap: known(6)}},
		"v1 without swap": {"total_rss 10\ntotal_cache 20\ntotal_inactive_file 4\n", V1, Breakdown{WorkingSet: known(96), Anon: known(10), File: known(20)}},
	} {
		got, err := parseKinds([]byte(tc.text), tc.v, 100)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", about, err, diff)
		}
	}
	for _, text := range []string{"", "anon 1\nfile 2\n", "anon x\nfile 2\ninactive_file 3\n"} {
		if got, err := parseKinds([]byte(text), V2, 1); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestParseStalls_BothLines(t *testing.T) {
	some, full, err := ParseStalls([]byte("some avg10=0.00 avg60=0.12 avg300=0.05 total=2022017\nfull avg10=0.00 avg60=0.03 avg300=0.01 total=722809\n"))
	if err != nil || some.Microseconds() != 2022017 || full.Microseconds() != 722809 {
		t.Errorf("%s, %s, %v", some, full, err)
	}
	for _, text := range []string{"", "some avg10=0.00 total=1\n", "some avg10=0.00 total=1\nfull avg10=0.00 total=x\n", "full avg10=0.00 total=1\n"} {
		if _, _, err := ParseStalls([]byte(text)); err == nil {
			t.Errorf("%q has no error", text)
		}
	}
	if n, err := ParseVMStatOOMKills([]byte("oom_killer 9\noom_kill 4\n")); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := ParseVMStatOOMKills([]byte("nr_free 1\n")); err == nil {
		t.Error("vmstat without the line has no error")
	}
}

// tree writes files below a directory.
func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBreakdownFiles_ReadWhatThereIs(t *testing.T) {
	v2, v1 := t.TempDir(), t.TempDir()
	writeFiles(t, v2, map[string]string{"pod/memory.current": "100\n", "pod/memory.stat": "anon 10\nfile 20\nkernel 7\nshmem 3\ninactive_file 4\n", "pod/memory.swap.current": "8\n",
		"pod/memory.events": "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\n", "pod/memory.pressure": "some avg10=0.00 total=5\nfull avg10=0.00 total=6\n", "pod/pids.current": "9\n"})
	writeFiles(t, v1, map[string]string{"memory/pod/memory.usage_in_bytes": "100\n", "memory/pod/memory.stat": "total_rss 10\ntotal_cache 20\ntotal_shmem 3\ntotal_swap 6\ntotal_inactive_file 4\n",
		"memory/pod/memory.kmem.usage_in_bytes": "7\n", "memory/pod/memory.failcnt": "1\n", "memory/pod/memory.oom_control": "under_oom 0\noom_kill 1\n",
		"memory/pod/c/memory.failcnt": "2\n", "memory/pod/c/memory.oom_control": "under_oom 0\noom_kill 3\n", "pids/pod/pids.current": "9\n"})
	writeFiles(t, v2, map[string]string{"bare/memory.current": "100\n", "bare/memory.stat": "anon 10\nfile 20\ninactive_file 4\n"})
	buf := NewBuffer()
	for about, tc := range map[string]struct {
		h    Hierarchy
		pod  Pod
		want Breakdown
	}{
		"v2": {At(V2, v2), Pod{Path: "/pod"}, Breakdown{known(96), known(10), known(20), known(3), known(8), known(7), known(9), known(5), known(6), known(2), known(4)}},
		"v1": {At(V1, v1), Pod{Path: "/pod", Containers: []Container{{Path: "/pod/c"}, {Path: "/pod/gone"}}},
			Breakdown{known(96), known(10), known(20), known(3), known(6), known(7), known(9), Counted{}, Counted{}, known(3), known(4)}},
		"v2 without controllers": {At(V2, v2), Pod{Path: "/bare"}, Breakdown{WorkingSet: known(96), Anon: known(10), File: known(20)}},
	} {
		f, err := OpenBreakdown(tc.h, tc.pod)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := f.Read(buf)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", about, err, diff)
			}
		}
		if n := testing.AllocsPerRun(10, func() {
			if _, err := f.Read(buf); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", about, n)
		}
		f.Close()
	}
	if _, err := OpenBreakdown(At(V2, v2), Pod{Path: "/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing cgroup: %v", err)
	}
}
