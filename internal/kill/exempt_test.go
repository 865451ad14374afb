package kill

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestImmediate_ExemptsContainer(t *testing.T) {
	onEachTree(t, func(e *env) {
		main, side := e.hog(e.pod, "main", "fork 5"), e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		target.Exempt = []string{"side"}
		e.grown(7)
		if e.killer.Ended(target) {
			e.Error("Ended returned true before the kill")
		}
		result, err := e.killer.Immediate(e.within(patience), target)
		if err != nil {
			e.Fatal(err)
		}
		e.killedBy(main, syscall.SIGKILL)
		if left, err := e.pod.PIDs(); err != nil || !slices.Equal(left, []int{side.Process.PID}) {
			e.Errorf("got processes %v, error %v, want only %d", left, err, side.Process.PID)
		}
		if result.Signalled != 6 || result.ToEmpty <= 0 {
			e.Errorf("got %+v, want 6 signalled", result)
		}
		again, err := e.killer.Immediate(e.within(patience), target)
		if err != nil || again.Signalled != 0 {
			e.Errorf("second kill: got %+v, error %v, want nothing signalled", again, err)
		}
		if full := e.target(e.pod.Path()); !e.killer.Ended(target) || e.killer.Ended(full) {
			e.Error("Ended must be true with the exempt directory and false without it")
		}
		e.mustKill()
		e.killedBy(side, syscall.SIGKILL)
	})
}

func TestImmediate_ExemptsSeveralContainers(t *testing.T) {
	onEachTree(t, func(e *env) {
		pod, err := e.node.AddPod("several", sandbox.Burstable, "main", "pause", "conmon")
		if err != nil {
			e.Fatal(err)
		}
		main, pause, conmon := e.hog(pod, "main", "fork 5"), e.hog(pod, "pause"), e.hog(pod, "conmon")
		target := e.target(pod.Path())
		target.UID, target.Exempt = "several", []string{"pause", "conmon", "none"}
		result, err := e.killer.Immediate(e.within(patience), target)
		if err != nil || result.ToEmpty <= 0 || !e.killer.Ended(target) {
			e.Fatalf("got %+v, error %v", result, err)
		}
		e.killedBy(main, syscall.SIGKILL)
		if !pause.Process.Alive() || !conmon.Process.Alive() {
			e.Error("an exempt process was killed")
		}
	})
}

func TestImmediate_IgnoresMissingExemptDirectory(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main")
		target := e.target(e.pod.Path())
		target.Exempt = []string{"none"}
		result, err := e.killer.Immediate(e.within(patience), target)
		if err != nil {
			e.Fatal(err)
		}
		e.mustBeEmpty(result)
		e.killedBy(h, syscall.SIGKILL)
	})
}

// A wait for exits ends with the last exit although the pod is still populated. maxWait is too long
// to end it.
func TestImmediate_DoesNotWaitForExemptContainer(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		target.Exempt = []string{"side"}
		e.killer.usesMrelease = false // the wait must include it
		e.killer.maxWait = time.Hour
		e.hog(e.pod, "main", "fill 50MiB")
		ctx := e.within(patience)
		if result, err := e.killer.Immediate(ctx, target); err != nil || ctx.Err() != nil {
			e.Errorf("got %+v, error %v, context error %v", result, err, ctx.Err())
		}
	})
}

// The exit of a process that was not listed when the wait began ends it, even if it is the last one.
func TestAwaitExits_DetectsExitOfUnlistedProcess(t *testing.T) {
	onEachTree(t, func(e *env) {
		known, unknown := e.hog(e.pod, "main"), e.hog(e.pod, "side")
		e.killer.maxWait = time.Hour
		a, err := e.killer.begin(e.killer.immediateWorkspaces[0], e.target(e.pod.Path()))
		if err != nil {
			e.Fatal(err)
		}
		defer a.end()
		if _, err := a.openPidfds([]int{known.Process.PID}); err != nil {
			e.Fatal(err)
		}
		defer a.closePidfds()
		time.AfterFunc(25*time.Millisecond, func() { _ = unix.Kill(known.Process.PID, unix.SIGKILL) })
		time.AfterFunc(50*time.Millisecond, func() { _ = unix.Kill(unknown.Process.PID, unix.SIGKILL) })
		ctx := e.within(patience)
		if a.awaitExits(ctx); a.late(ctx) {
			e.Errorf("the wait did not end within %s of the last exit", patience)
		}
		e.killedBy(unknown, syscall.SIGKILL)
	})
}

func TestAwait_IgnoresExemptContainer(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		target.Exempt = []string{"side"}
		if err := e.killer.Await(e.within(patience), target); err != nil {
			e.Error(err)
		}
	})
}

// For a process with many threads cgroup.procs is empty on v2 once the first thread has exited,
// although the last one still frees the memory.
func TestEnded_WaitsForMemoryRelease(t *testing.T) {
	onEachTree(t, func(e *env) {
		e.hog(e.pod, "side")
		target := e.target(e.pod.Path())
		target.Exempt = []string{"side"}
		for range 10 {
			h := e.hog(e.pod, "main", "threads 50", "fill 200MiB")
			if err := unix.Kill(h.Process.PID, unix.SIGKILL); err != nil {
				e.Fatal(err)
			}
			for !e.killer.Ended(target) { // without process_mrelease it takes tens of milliseconds
			}
			if used, err := e.pod.Usage(); err != nil || used > 100<<20 {
				e.Errorf("got %d bytes charged, error %v, want at most 100 MiB", used, err)
			}
			e.killedBy(h, syscall.SIGKILL)
		}
	})
}
