package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOwnPod_ByEnvironmentOrCgroup(t *testing.T) {
	const uid = "1b2c3d4e-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct{ given, cgroups, want string }{
		"given":              {uid, "0::/kubepods/poda-b\n", uid},
		"by cgroupfs, v1":    {"", "12:memory:/kubepods/burstable/pod" + uid + "/0123\n11:pids:/x\n", uid},
		"by systemd, v2":     {"", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_000000000001.slice/cri-containerd-0123.scope\n", uid},
		"in a namespace":     {"", "0::/\n", ""},
		"outside of pods":    {"", "0::/system.slice/plimsoll-agent.service\n", ""},
		"named like a pod":   {"", "0::/podman/0123\n", ""},
		"no list":            {"", "", ""},
		"an empty given one": {" ", "0::/\n", ""},
	} {
		file := filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(file, []byte(tc.cgroups), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ownPod(tc.given, file); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := ownPod("", filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("without a list: %q", got)
	}
}
