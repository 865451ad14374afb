package stats

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// TestPods_MovesToCgroupRootOfKubelet covers a kubelet's cgroup root that becomes known after
// the start of the agent. A cgroup at the default path is a leftover then.
func TestPods_MovesToCgroupRootOfKubelet(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	group := func(place, limit string, working int) {
		dir := h.Dir("memory", place)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"memory.current": fmt.Sprintln(working), "memory.max": limit, "cgroup.procs": "",
			"memory.stat": fmt.Sprintf("anon %d\nfile 0\nactive_file 0\ninactive_file 0\n", working)} {
			write(t, dir, name, text)
		}
	}
	group("/kubepods", "1048576\n", 4096)
	const root = "/kubelet.slice/kubelet-kubepods.slice"
	group(root, "4194304\n", 8192)
	group(filepath.Join(root, "kubelet-kubepods-podab.slice"), "max\n", 8192)
	places := cgroup.NewPodPlaces(h, "/")
	node := openNode(t, Options{ProcRoot: "testdata/proc", Hierarchy: h, Places: places})
	pods := OpenPodsAt(h, places)
	t.Cleanup(pods.Close)
	node.SetPods(pods)
	list := []signals.Pod{{UID: "ab"}}
	expect := func(found bool, capacity int64) {
		t.Helper()
		measured := pods.Measure(list, nil)
		var seen signals.Observations
		node.Observe(signals.Periodic, time.Now(), &seen)
		if o := seen[signals.AllocatableMemoryAvailable]; (measured[0].Usage != nil) != found || int64(o.Capacity) != capacity {
			t.Errorf("%+v, %+v, want found %t of %d bytes", measured[0].Usage, o, found, capacity)
		}
	}
	expect(false, 1<<20)
	places.Under("/kubelet")
	expect(true, 4<<20)
}
