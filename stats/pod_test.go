package stats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// TestCountProcesses_ReturnsTasksBeyondBound checks that processes in unvisited cgroups are not
// counted as a known 0, which would remove the pod from all rankings.
func TestCountProcesses_ReturnsTasksBeyondBound(t *testing.T) {
	for _, tc := range []struct {
		tasks string // pids.current, empty if unreadable
		want  signals.PIDs
	}{{"7000\n", 7000}, {"", 1}} {
		h := cgroup.At(cgroup.V2, t.TempDir())
		write := func(dir, file, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Join(h.Root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(h.Root, dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("pod", "cgroup.procs", "")
		write("pod/app", "cgroup.procs", "")
		const depth = 40
		for i := range depth {
			write("pod/app"+strings.Repeat("/d", i+1), "cgroup.procs", strings.Repeat("1\n", i/(depth-1)))
		}
		if tc.tasks != "" {
			write("pod/app", "pids.current", tc.tasks)
		}
		m := &pod{containers: make([]containerGroup, 1)}
		for path, dir := range map[string]**cgroup.Dir{"/pod": &m.own.dir, "/pod/app": &m.containers[0].dir} {
			opened, err := cgroup.OpenDir(h, "memory", path)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			*dir = opened
		}
		if got, err := m.countProcesses(cgroup.NewBuffer()); err != nil || got != signals.Of(tc.want) {
			t.Errorf("pids.current %q: %+v, %v, want %d", tc.tasks, got, err, tc.want)
		}
	}
}
