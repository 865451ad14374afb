package kill

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestASparedContainerIsLeftAlone(t *testing.T) {
	onEach(t, func(r *rig) {
		main, side := r.hog(r.pod, "main", "fork 5"), r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = "side"
		if r.killer.Ended(target) {
			r.Error("it has ended before the kill")
		}
		result, err := r.killer.Immediate(r.within(10*time.Second), target)
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
		again, err := r.killer.Immediate(r.within(10*time.Second), target)
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

func TestASpareContainerThatIsNotThere(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		target := r.target(r.pod.Path())
		target.Spare = "none"
		result, err := r.killer.Immediate(r.within(10*time.Second), target)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(h, syscall.SIGKILL)
	})
}

func TestAwaitDoesNotWaitForTheSparedContainer(t *testing.T) {
	onEach(t, func(r *rig) {
		r.hog(r.pod, "side")
		target := r.target(r.pod.Path())
		target.Spare = "side"
		if err := r.killer.Await(r.within(10*time.Second), target); err != nil {
			r.Error(err)
		}
	})
}
