package kill

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

func TestASparedContainerIsLeftAlone(t *testing.T) {
	onEach(t, func(r *rig) {
		main, side := r.hog(r.pod, "main", "fork 5"), r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = []string{"side"}
		r.grown(7)
		if r.killer.Ended(target) {
			r.Error("it has ended before the kill")
		}
		result, err := r.killer.Immediate(r.within(patience), target)
		if err != nil {
			r.Fatal(err)
		}
		r.killedBy(main, syscall.SIGKILL)
		if left, err := r.pod.PIDs(); err != nil || !slices.Equal(left, []int{side.Process.PID}) {
			r.Errorf("left: %v, %v, want %d alone", left, err, side.Process.PID)
		}
		if result.Signalled != 6 || result.ToEmpty <= 0 {
			r.Errorf("%+v", result)
		}
		again, err := r.killer.Immediate(r.within(patience), target)
		if err != nil || again.Signalled != 0 {
			r.Errorf("%+v, %v: nobody is left to be killed", again, err)
		}
		if whole := r.target(r.pod.Path()); !r.killer.Ended(target) || r.killer.Ended(whole) {
			r.Error("it has ended but for the one that is spared")
		}
		r.mustKill()
		r.killedBy(side, syscall.SIGKILL)
	})
}

func TestSeveralAreSpared(t *testing.T) {
	onEach(t, func(r *rig) {
		pod, err := r.node.AddPod("several", sandbox.Burstable, "main", "pause", "conmon")
		if err != nil {
			r.Fatal(err)
		}
		main, pause, conmon := r.hog(pod, "main", "fork 5"), r.hog(pod, "pause"), r.hog(pod, "conmon")
		target := r.target(pod.Path())
		target.UID, target.Spare = "several", []string{"pause", "conmon", "none"}
		result, err := r.killer.Immediate(r.within(patience), target)
		if err != nil || result.ToEmpty <= 0 || !r.killer.Ended(target) {
			r.Fatalf("%+v, %v", result, err)
		}
		r.killedBy(main, syscall.SIGKILL)
		if !pause.Process.Alive() || !conmon.Process.Alive() {
			r.Error("who is to be spared was killed")
		}
	})
}

func TestASpareContainerThatIsNotThere(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		target := r.target(r.pod.Path())
		target.Spare = []string{"none"}
		result, err := r.killer.Immediate(r.within(patience), target)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(h, syscall.SIGKILL)
	})
}

// A wait for exits ends with the last exit, although the pod is still populated: no wait here ends
// because it is time to list again.
func TestASparedContainerIsNotWaitedFor(t *testing.T) {
	onEach(t, func(r *rig) {
		r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = []string{"side"}
		r.killer.released = false // the wait must include it
		r.killer.longest = time.Hour
		r.hog(r.pod, "main", "fill 50MiB")
		ctx := r.within(patience)
		if result, err := r.killer.Immediate(ctx, target); err != nil || ctx.Err() != nil {
			r.Errorf("%+v, %v, %v", result, err, ctx.Err())
		}
	})
}

// A process that was not known when the wait began ends it nevertheless, even if it is the last.
func TestTheEndOfAnUnknownProcessIsNotMissed(t *testing.T) {
	onEach(t, func(r *rig) {
		known, unknown := r.hog(r.pod, "main"), r.hog(r.pod, "side")
		r.killer.longest = time.Hour
		a, err := r.killer.begin(r.killer.urgent[0], r.target(r.pod.Path()))
		if err != nil {
			r.Fatal(err)
		}
		defer a.end()
		if _, err := a.openPidfds([]int{known.Process.PID}); err != nil {
			r.Fatal(err)
		}
		defer a.closePidfds()
		time.AfterFunc(25*time.Millisecond, func() { _ = unix.Kill(known.Process.PID, unix.SIGKILL) })
		time.AfterFunc(50*time.Millisecond, func() { _ = unix.Kill(unknown.Process.PID, unix.SIGKILL) })
		ctx := r.within(patience)
		if a.awaitExits(ctx); a.late(ctx) {
			r.Errorf("the wait did not end within %s of the last exit", patience)
		}
		r.killedBy(unknown, syscall.SIGKILL)
	})
}

func TestAwaitDoesNotWaitForTheSparedContainer(t *testing.T) {
	onEach(t, func(r *rig) {
		r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = []string{"side"}
		if err := r.killer.Await(r.within(patience), target); err != nil {
			r.Error(err)
		}
	})
}

// For a process with many threads cgroup.procs is empty on v2 once the first thread has exited,
// although the last one still frees the memory.
func TestThePodHasEndedWhenItsMemoryIsBack(t *testing.T) {
	onEach(t, func(r *rig) {
		r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = []string{"side"}
		for range 10 {
			h := r.hog(r.pod, "main", "threads 50", "fill 200MiB")
			if err := unix.Kill(h.Process.PID, unix.SIGKILL); err != nil {
				r.Fatal(err)
			}
			for !r.killer.Ended(target) { // without process_mrelease it takes tens of milliseconds
			}
			if used, err := r.pod.Usage(); err != nil || used > 100<<20 {
				r.Errorf("%d bytes are still charged, %v", used, err)
			}
			r.killedBy(h, syscall.SIGKILL)
		}
	})
}
