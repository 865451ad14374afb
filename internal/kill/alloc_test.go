package kill

import (
	"runtime"
	"testing"
)

// A kill runs under memory pressure: it must not allocate. The minimum over several kills excludes
// the allocations of other goroutines: those of the kill itself are in every one of them.
func TestImmediateAllocatesNothing(t *testing.T) {
	least := ^uint64(0)
	for i := 0; i < 20 && least > 0; i++ {
		r := onMemory(t)
		h := r.hog(r.pod, "main", "fork 50")
		r.grown(51)
		// The sandbox observes the hog itself, and allocates when it ends.
		other := addPod(t, r.node, "other")
		for _, controller := range []string{"memory", "pids", "freezer"} {
			move(t, h.Process.PID, other.ContainerDir(controller, "main"))
		}
		ctx, target := t.Context(), r.target(r.pod.Path())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		result, err := r.killer.Immediate(ctx, target)
		runtime.ReadMemStats(&after)
		if err != nil || result.Signalled != 50 {
			t.Fatalf("%+v, %v; want 50 signalled", result, err)
		}
		least = min(least, after.Mallocs-before.Mallocs)
	}
	if least > 0 {
		t.Errorf("a kill of 50 processes made %d allocations, want none", least)
	}
}
