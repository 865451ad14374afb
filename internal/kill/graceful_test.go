package kill

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

func TestGraceful_EndsWithinGracePeriod(t *testing.T) {
	onEachTree(t, func(e *env) {
		a, b := e.hog(e.pod, "main"), e.hog(e.pod, "side", "term after 50ms")
		begin := time.Now()
		result, err := e.killer.Graceful(e.within(patience), e.target(e.pod.Path()), time.Hour, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.mustBeEmpty(result)
		e.killedBy(a, syscall.SIGTERM)
		<-b.Process.Done()
		if !b.Process.State().Success() || result.Signalled != 2 || result.Rounds != 0 {
			e.Errorf("got %+v, %v, want 2 signalled and an exit by the handler", result, b.Process.State())
		}
		if took := time.Since(begin); took < 50*time.Millisecond {
			e.Errorf("got an end after %v, want at least 50ms", took)
		}
	})
}

// Processes that have left the listing and not yet exited are waited for: they need no SIGKILL.
func TestUnreachable_ExitingProcessesAreNot(t *testing.T) {
	onEachTree(t, func(e *env) {
		a, err := e.killer.begin(e.killer.gracefulWorkspace, e.target(e.pod.Path()))
		if err != nil {
			e.Fatal(err)
		}
		defer a.end()
		for name, tc := range map[string]struct {
			pids      []int
			invisible int
			partial   error
			want      bool
		}{
			"listed":               {[]int{2}, 1, nil, false},
			"exiting":              {nil, 0, nil, false},
			"foreign":              {nil, 1, nil, true},
			"listing was too long": {nil, 0, errFound, true},
		} {
			a.w.pids, a.w.invisible, a.w.partial = append(a.w.pids[:0], tc.pids...), tc.invisible, tc.partial
			if got := a.unreachable(); got != tc.want {
				e.Errorf("%s: got %t, want %t", name, got, tc.want)
			}
		}
	})
}

func TestGraceful_KillsAfterGracePeriod(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main", "term ignore")
		result, err := e.killer.Graceful(e.within(patience), e.target(e.pod.Path()), 200*time.Millisecond, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.mustBeEmpty(result)
		e.killedBy(h, syscall.SIGKILL)
		if result.ToSignal < 200*time.Millisecond || result.Signalled != 1 {
			e.Errorf("got %+v, want SIGKILL after 200ms", result)
		}
	})
}

func TestGraceful_KillsOnEscalation(t *testing.T) {
	for name, early := range map[string]bool{"from the start": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			onEachTree(t, func(e *env) {
				h := e.hog(e.pod, "main", "term ignore")
				escalate := make(chan struct{})
				if early {
					close(escalate)
				} else {
					timer := time.AfterFunc(50*time.Millisecond, func() { close(escalate) })
					defer timer.Stop()
				}
				result, err := e.killer.Graceful(e.within(patience), e.target(e.pod.Path()), time.Hour, escalate)
				if err != nil {
					e.Fatal(err)
				}
				e.mustBeEmpty(result)
				e.killedBy(h, syscall.SIGKILL)
			})
		})
	}
}

func TestGraceful_SendsNoSIGKILLWhenCancelled(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main", "term ignore")
		ctx, cancel := context.WithCancel(e.Context())
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		defer timer.Stop()
		_, err := e.killer.Graceful(ctx, e.target(e.pod.Path()), time.Hour, nil)
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
			e.Errorf("got error %v, want %v", err, ErrTimeout)
		}
		if !h.Process.Alive() {
			e.Error("the process was killed after the cancellation")
		}
	})
}

// A slow soft eviction does not delay a hard one.
func TestImmediate_RunsBesideGraceful(t *testing.T) {
	onEachTree(t, func(e *env) {
		patient := e.hog(e.pod, "main", "term ignore")
		escalate, finished := make(chan struct{}), make(chan error, 1)
		mine := e.target(e.pod.Path())
		go func() {
			_, err := e.killer.Graceful(e.Context(), mine, time.Hour, escalate)
			finished <- err
		}()
		for !e.killer.gracefulWorkspace.busy.Load() { // until it has begun
		}
		if _, err := e.killer.Graceful(e.Context(), mine, 0, nil); !errors.Is(err, ErrBusy) {
			e.Errorf("second graceful kill: got error %v, want %v", err, ErrBusy)
		}
		other := addPod(e.T, e.node, "other")
		h := e.hog(other, "main")
		target := e.target(other.Path())
		target.UID = "other"
		if _, err := e.killer.Immediate(e.within(patience), target); err != nil {
			e.Error(err)
		}
		e.killedBy(h, syscall.SIGKILL)
		if !patient.Process.Alive() {
			e.Error("the pod with a grace period was killed")
		}
		close(escalate)
		if err := <-finished; err != nil {
			e.Error(err)
		}
		e.killedBy(patient, syscall.SIGKILL)
	})
}

func TestAwait_SendsNoSignal(t *testing.T) {
	onEachTree(t, func(e *env) {
		h := e.hog(e.pod, "main")
		target := e.target(e.pod.Path())
		short, cancel := context.WithTimeout(e.Context(), 150*time.Millisecond)
		defer cancel()
		if err := e.killer.Await(short, target); !errors.Is(err, ErrTimeout) {
			e.Errorf("got error %v, want a timeout", err)
		}
		gone := make(chan error, 1)
		go func() { gone <- e.killer.Await(e.Context(), target) }()
		if err := syscall.Kill(h.Process.PID, syscall.SIGTERM); err != nil {
			e.Fatal(err)
		}
		if err := <-gone; err != nil && !errors.Is(err, ErrGone) {
			e.Error(err)
		}
		e.killedBy(h, syscall.SIGTERM)
	})
}
