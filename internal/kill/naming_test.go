package kill

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// With systemd's names, a kill works in the same way and refuses every slice above the pod's
// and the scopes below.
func TestImmediate_SupportsSystemdNames(t *testing.T) {
	for name, qos := range map[string]sandbox.QoS{"guaranteed": sandbox.Guaranteed, "burstable": sandbox.Burstable, "best effort": sandbox.BestEffort} {
		t.Run(name, func(t *testing.T) {
			onEachTree(t, func(e *env) {
				e.node = sandbox.Make(e, "kill", 512<<20, sandbox.SystemdNames())
				var err error
				if e.pod, err = e.node.AddPod(uid, qos, "main", "side"); err != nil {
					e.Fatal(err)
				}
				main, side := e.hog(e.pod, "main", "fork 10"), e.hog(e.pod, "side", "term ignore")
				wrong := []string{filepath.Join(e.pod.Path(), "cri-containerd-main.scope")}
				for above := filepath.Dir(e.pod.Path()); above != "/"; above = filepath.Dir(above) {
					wrong = append(wrong, above)
				}
				for _, path := range wrong {
					if result, err := e.killer.Immediate(e.Context(), e.target(path)); !errors.Is(err, ErrNotPod) || result != (Result{}) {
						e.Errorf("%s: got %+v, error %v, want %v", path, result, err, ErrNotPod)
					}
				}
				if !main.Process.Alive() || !side.Process.Alive() {
					e.Fatal("a process was killed by a refused kill")
				}
				e.grown(12)
				if result := e.mustKill(); result.Signalled != 12 {
					e.Errorf("got %+v, want 12 signalled", result)
				}
				e.killedBy(main, syscall.SIGKILL)
				e.killedBy(side, syscall.SIGKILL)
			})
		})
	}
}
