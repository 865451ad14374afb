package stats

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Directories that hang cost their time once, leave the other ones measured, and do not prevent the
// measurement of pods. A mount of another filesystem is no consumer of this one.
func TestDiskConsumers_AbandonHangingHostPaths(t *testing.T) {
	if !inPrivateMounts(t) {
		return
	}
	host := newDisk(t)
	p := host.pod("u1")
	writeFile(t, host.root+"/data/file", 5*mib)
	writeFile(t, tmpfs(t, host.root+"/memory", "")+"/file", 6*mib)
	var ends []func()
	paths := []string{"/memory"}
	const dead = maxNewHanging + 2
	for i := range dead {
		ends = append(ends, hangingMount(t, fmt.Sprint(host.root, "/dead", i)))
		paths = append(paths, fmt.Sprint("/dead", i))
	}
	c := host.consumers(DiskOptions{})
	c.directories.options.HostTime = 5 * time.Second // for each hanging directory, once
	c.directories.yield = func() {}                  // beside other tests the walks that respond would take longer
	active := []signals.Pod{mounting("stuck", paths...), mounting("writer", "/data")}
	for _, hang := range []int{maxNewHanging, dead, dead} {
		got := host.of(c, active...)
		if w := find(t, got.Largest, "/data"); w.Pod != "default/writer" || !near(w.Amount, 5*mib) {
			t.Errorf("beside the hanging directories: %+v", w)
		}
		text := strings.Join(got.Unmeasured, "\n")
		if !strings.Contains(text, fmt.Sprintf("directories without an answer (%d): /dead0 (default/stuck)", hang)) || !strings.Contains(text, "/dead0 has not answered in time") {
			t.Errorf("unmeasured: %s", text)
		}
		for _, one := range got.Largest {
			if strings.HasPrefix(one.Name, "/memory") {
				t.Errorf("another filesystem is listed: %+v", one)
			}
		}
		if n := len(c.directories.hanging); n != hang {
			t.Errorf("%d threads hang, want %d", n, hang)
		}
		if late := strings.Contains(text, "directories not reached in time"); late != (hang < dead) {
			t.Errorf("not reached: %t, unmeasured: %s", late, text)
		}
		measure(t, c.directories, p)
	}
	for _, end := range ends {
		end()
	}
	for c.directories.mayWalk("/dead0") != nil {
		runtime.Gosched()
	}
}
