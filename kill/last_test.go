package kill

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestTheLastContainerEndsAfterTheOthers(t *testing.T) {
	onEach(t, func(r *rig) {
		main, side := r.hog(r.pod, "main", "fill 50MiB"), r.hog(r.pod, "side")
		var rounds [][]int
		r.killer.urgent.between = func() { rounds = append(rounds, slices.Clone(r.killer.urgent.pids)) }
		target := r.target(r.pod.Path())
		target.Last = "side"
		result, err := r.killer.Immediate(r.within(10*time.Second), target)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(main, syscall.SIGKILL)
		r.killedBy(side, syscall.SIGKILL)
		if len(rounds) == 0 || !slices.Equal(rounds[0], []int{main.Process.PID}) {
			r.Errorf("signalled in the first round: %v, want %d alone", rounds, main.Process.PID)
		}
		if result.Signalled != 2 {
			r.Errorf("%+v", result)
		}
	})
}

func TestALastContainerThatIsNotThere(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		target := r.target(r.pod.Path())
		target.Last = "none"
		result, err := r.killer.Immediate(r.within(10*time.Second), target)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(h, syscall.SIGKILL)
	})
}
