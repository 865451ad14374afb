package kill

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

func TestGracefulEndsWithinGrace(t *testing.T) {
	onEach(t, func(r *rig) {
		a, b := r.hog(r.pod, "main"), r.hog(r.pod, "side", "term after 50ms")
		begin := time.Now()
		result, err := r.killer.Graceful(r.within(patience), r.target(r.pod.Path()), time.Hour, nil)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(a, syscall.SIGTERM)
		<-b.Process.Done()
		if !b.Process.State().Success() || result.Signalled != 2 || result.Rounds != 0 {
			r.Errorf("%+v, %v: want 2 signalled and the handler's own end", result, b.Process.State())
		}
		if took := time.Since(begin); took < 50*time.Millisecond {
			r.Errorf("took %v", took)
		}
	})
}

func TestGracefulKillsAfterGrace(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main", "term ignore")
		result, err := r.killer.Graceful(r.within(patience), r.target(r.pod.Path()), 200*time.Millisecond, nil)
		if err != nil {
			r.Fatal(err)
		}
		r.mustBeEmpty(result)
		r.killedBy(h, syscall.SIGKILL)
		if result.ToSignal < 200*time.Millisecond || result.Signalled != 1 {
			r.Errorf("%+v, want SIGKILL after 200ms", result)
		}
	})
}

func TestGracefulHurries(t *testing.T) {
	for name, early := range map[string]bool{"from the start": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				h := r.hog(r.pod, "main", "term ignore")
				hurry := make(chan struct{})
				if early {
					close(hurry)
				} else {
					timer := time.AfterFunc(50*time.Millisecond, func() { close(hurry) })
					defer timer.Stop()
				}
				result, err := r.killer.Graceful(r.within(patience), r.target(r.pod.Path()), time.Hour, hurry)
				if err != nil {
					r.Fatal(err)
				}
				r.mustBeEmpty(result)
				r.killedBy(h, syscall.SIGKILL)
			})
		})
	}
}

func TestGracefulKillsNobodyWhenCalledOff(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main", "term ignore")
		ctx, cancel := context.WithCancel(r.Context())
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		defer timer.Stop()
		_, err := r.killer.Graceful(ctx, r.target(r.pod.Path()), time.Hour, nil)
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			r.Errorf("error %v, want %v", err, ErrTimeout)
		}
		if !h.Process.Alive() {
			r.Error("killed though it was called off")
		}
	})
}

// A slow soft eviction does not delay a hard one.
func TestImmediateBesideGraceful(t *testing.T) {
	onEach(t, func(r *rig) {
		patient := r.hog(r.pod, "main", "term ignore")
		hurry, finished := make(chan struct{}), make(chan error, 1)
		mine := r.target(r.pod.Path())
		go func() {
			_, err := r.killer.Graceful(r.Context(), mine, time.Hour, hurry)
			finished <- err
		}()
		for !r.killer.patient.busy.Load() { // until it has begun
		}
		if _, err := r.killer.Graceful(r.Context(), mine, 0, nil); !errors.Is(err, ErrBusy) {
			r.Errorf("a second graceful kill: %v, want %v", err, ErrBusy)
		}
		other := addPod(r.T, r.node, "other")
		h := r.hog(other, "main")
		target := r.target(other.Path())
		target.UID = "other"
		if _, err := r.killer.Immediate(r.within(patience), target); err != nil {
			r.Error(err)
		}
		r.killedBy(h, syscall.SIGKILL)
		if !patient.Process.Alive() {
			r.Error("the pod with a grace period is dead")
		}
		close(hurry)
		if err := <-finished; err != nil {
			r.Error(err)
		}
		r.killedBy(patient, syscall.SIGKILL)
	})
}

func TestAwaitTouchesNobody(t *testing.T) {
	onEach(t, func(r *rig) {
		h := r.hog(r.pod, "main")
		target := r.target(r.pod.Path())
		short, cancel := context.WithTimeout(r.Context(), 150*time.Millisecond)
		defer cancel()
		if err := r.killer.Await(short, target); !errors.Is(err, ErrTimeout) {
			r.Errorf("error %v, want a timeout", err)
		}
		gone := make(chan error, 1)
		go func() { gone <- r.killer.Await(r.Context(), target) }()
		if err := syscall.Kill(h.Process.PID, syscall.SIGTERM); err != nil {
			r.Fatal(err)
		}
		if err := <-gone; err != nil && !errors.Is(err, ErrGone) {
			r.Error(err)
		}
		r.killedBy(h, syscall.SIGTERM)
	})
}
