package kill

import (
	"runtime"
	"testing"
)

// A kill runs under memory pressure and must not allocate. The minimum over several kills excludes
// the allocations of other goroutines: a kill's own allocations occur every time.
func TestImmediate_AllocatesNothing(t *testing.T) {
	minAllocs := ^uint64(0)
	for i := 0; i < 20 && minAllocs > 0; i++ {
		e := onMemory(t)
		h := e.hog(e.pod, "main", "fork 50")
		e.grown(51)
		// The sandbox observes the hog itself, and allocates when it ends.
		other := addPod(t, e.node, "other")
		for _, controller := range []string{"memory", "pids", "freezer"} {
			move(t, h.Process.PID, other.ContainerDir(controller, "main"))
		}
		ctx, target := t.Context(), e.target(e.pod.Path())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		result, err := e.killer.Immediate(ctx, target)
		runtime.ReadMemStats(&after)
		if err != nil || result.Signalled != 50 {
			t.Fatalf("got %+v, error %v, want 50 signalled", result, err)
		}
		minAllocs = min(minAllocs, after.Mallocs-before.Mallocs)
	}
	if minAllocs > 0 {
		t.Errorf("got %d allocations in a kill of 50 processes, want 0", minAllocs)
	}
}
