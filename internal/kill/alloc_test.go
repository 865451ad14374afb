package kill

import (
	"runtime"
	"testing"
)

// A kill runs under the pressure it fights: it must not ask for memory. The
// least of several kills counts, so that what other goroutines allocate
// meanwhile does not: what the kill itself allocates is in every one of them.
func TestImmediateAllocatesNothing(t *testing.T) {
	least := ^uint64(0)
	for i := 0; i < 20 && least > 0; i++ {
		r := onMemory(t)
		h := r.hog(r.pod, "main", "fork 50")
		r.grown(51)
		// The hog itself is watched by the sandbox, which allocates when it ends.
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
