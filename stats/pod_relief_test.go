package stats

import (
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// The working set has active page cache and reclaimable slab, the memory that the end of the pod
// frees has neither.
func TestPods_MeasureMemoryReliefWithoutCaches(t *testing.T) {
	const mi = 1 << 20
	for _, tc := range []struct {
		v                 cgroup.Version
		usage, stat       string
		workingSet, frees signals.Bytes
	}{
		{cgroup.V2, "memory.current", "anon 104857600\nfile 419430400\nkernel 104857600\nactive_file 209715200\ninactive_file 104857600\nslab_reclaimable 52428800\n", 500 * mi, 250 * mi},
		{cgroup.V1, "memory.usage_in_bytes", "total_rss 104857600\ntotal_cache 419430400\ntotal_active_file 209715200\ntotal_inactive_file 104857600\n", 500 * mi, 300 * mi},
	} {
		t.Run(tc.v.String(), func(t *testing.T) {
			h := cgroup.At(tc.v, t.TempDir())
			dir := h.Dir("memory", "/kubepods/podab")
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			write := func(file, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(tc.usage, "629145600\n") // 600 MiB
			write("memory.stat", tc.stat)
			p := OpenPods(h, "/")
			defer p.Close()
			pods := []signals.Pod{{UID: "ab"}}
			u := p.MeasureMemory(pods, nil)[0].Usage
			if u == nil || u.Memory != signals.Of(tc.workingSet) || u.MemoryRelief != signals.Of(tc.frees) || u.MemoryFiles != signals.Of(signals.Bytes(100*mi)) {
				t.Fatalf("%+v, %v, want %d and %d", u, p.Err(), tc.workingSet, tc.frees)
			}
			write("memory.stat", "unreadable\n")
			if u := p.MeasureMemory(pods, nil)[0].Usage; u == nil || u.Memory.Known || u.MemoryRelief.Known {
				t.Errorf("%+v of a malformed file", u)
			}
		})
	}
}
