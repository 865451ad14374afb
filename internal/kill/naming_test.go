package kill

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// With systemd's names the kill is the same, and it refuses the same: every slice above the pod's,
// and the scopes below.
func TestImmediateWithSystemdNames(t *testing.T) {
	for name, qos := range map[string]sandbox.QoS{"guaranteed": sandbox.Guaranteed, "burstable": sandbox.Burstable, "best effort": sandbox.BestEffort} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				r.node = sandbox.Make(r, "kill", 512<<20, sandbox.SystemdNames())
				var err error
				if r.pod, err = r.node.AddPod(uid, qos, "main", "side"); err != nil {
					r.Fatal(err)
				}
				main, side := r.hog(r.pod, "main", "fork 10"), r.hog(r.pod, "side", "term ignore")
				wrong := []string{filepath.Join(r.pod.Path(), "cri-containerd-main.scope")}
				for above := filepath.Dir(r.pod.Path()); above != "/"; above = filepath.Dir(above) {
					wrong = append(wrong, above)
				}
				for _, path := range wrong {
					if result, err := r.killer.Immediate(r.Context(), r.target(path)); !errors.Is(err, ErrNotPod) || result != (Result{}) {
						r.Errorf("%s: %+v, %v, want %v", path, result, err, ErrNotPod)
					}
				}
				if !main.Process.Alive() || !side.Process.Alive() {
					r.Fatal("a refused kill killed")
				}
				r.grown(12)
				if result := r.mustKill(); result.Signalled != 12 {
					r.Errorf("%+v, want 12 signalled", result)
				}
				r.killedBy(main, syscall.SIGKILL)
				r.killedBy(side, syscall.SIGKILL)
			})
		})
	}
}
