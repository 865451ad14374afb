package cgroupnotify

import (
	"os"
	"path/filepath"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// TestWatched_FollowsPlaces covers a leftover cgroup that was used as kubepods.
func TestWatched_FollowsPlaces(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	for _, place := range []string{"/kubepods", "/kubelet/kubepods"} {
		dir := h.Dir("memory", place)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"memory.current": "1\n", "memory.stat": "anon 1\n", "cgroup.events": "populated 0\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	places := cgroup.NewPodPlaces(h, "/")
	n := &Notifier{options: Options{Hierarchy: h, Places: places}, buf: cgroup.NewBuffer()}
	c := &watched{n: n, where: Kubepods, find: n.findKubepods(), root: places.Root}
	defer c.close()
	expect := func(at string) {
		t.Helper()
		if c.retry(); c.at != at || c.dir == nil {
			t.Errorf("watched at %q, want %q", c.at, at)
		}
	}
	expect("/kubepods")
	expect("/kubepods")
	places.Under("/kubelet")
	if err := os.WriteFile(filepath.Join(h.Dir("memory", "/kubelet/kubepods"), "cgroup.events"), []byte("populated 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("/kubelet/kubepods")
}
