package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Pods of the API server are known once it, the runtime or the state file has listed them.
func TestAPIPods_UnknownUntilListed(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for about, list := range map[string]func(*apiPods){
		"API server alone": func(*apiPods) {},
		"runtime":          func(p *apiPods) { p.fromRuntime.Store(&[]signals.Pod{}) },
		"state file":       func(p *apiPods) { p.saved = true },
	} {
		sends := make(chan struct{})
		p := podsOfServer(t, sends)
		if err := p.await(ended); !errors.Is(err, errNotListed) {
			t.Errorf("%s, before any list: %v", about, err)
		}
		list(p)
		if err := p.await(ended); (err == nil) != p.known() {
			t.Errorf("%s, without an answer of the server: %v", about, err)
		}
		time.AfterFunc(2*listPoll, func() { close(sends) })
		if err := p.await(t.Context()); err != nil || !p.Synced() {
			t.Errorf("%s: %v, the server's list was waited for: %t", about, err, p.Synced())
		}
	}
}

func TestPodsToSave_BoundsPartsPerPod(t *testing.T) {
	var active []signals.Pod
	for i := range 500 {
		pod := signals.Pod{UID: fmt.Sprint("uid-", i), Name: fmt.Sprint("p", i)}
		parts := 10
		if i < 400 {
			parts = 250
		}
		for k := range parts {
			name := fmt.Sprintf("%063d", k)
			pod.Containers = append(pod.Containers, signals.Container{Name: name, ID: name})
			pod.Volumes = append(pod.Volumes, signals.Volume{Name: name, Local: true, Directory: "kubernetes.io~empty-dir/" + name})
		}
		active = append(active, pod)
	}
	saved := podsToSave(active)
	text, err := json.Marshal(saved)
	if err != nil || len(text) > 4<<20 {
		t.Errorf("%d bytes, %v, want at most 4 MiB: a state file above 8 MiB is not read", len(text), err)
	}
	if len(saved) != 500 || len(saved[499].Volumes) != 10 || len(active[0].Volumes) != 250 {
		t.Errorf("%d pods are saved", len(saved))
	}
	for i := range active { // paths with characters that JSON replaces by six bytes
		active[i].Containers, active[i].Volumes = nil, make([]signals.Volume, 1+i%90)
		for range active[i].Volumes {
			active[i].HostPaths = append(active[i].HostPaths, "/"+strings.Repeat("\x01", 2*i))
		}
	}
	if text, err = json.Marshal(podsToSave(active)); err != nil || len(text) > 6<<20 {
		t.Errorf("%d bytes with long paths, %v", len(text), err)
	}
	many := make([]signals.Pod, 2*maxSavedParts)
	if len(podsToSave(many)) != maxSavedParts {
		t.Errorf("%d pods are saved", len(podsToSave(many)))
	}
}

func TestOwnPod_ByEnvironmentOrCgroup(t *testing.T) {
	const uid = "1b2c3d4e-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct{ given, cgroups, want string }{
		"environment":       {uid, "0::/kubepods/poda-b\n", uid},
		"cgroupfs, v1":      {"", "12:memory:/kubepods/burstable/pod" + uid + "/0123\n11:pids:/x\n", uid},
		"systemd, v2":       {"", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c3d4e_0000_4000_8000_000000000001.slice/cri-containerd-0123.scope\n", uid},
		"cgroup namespace":  {"", "0::/\n", ""},
		"outside of pods":   {"", "0::/system.slice/plimsoll-agent.service\n", ""},
		"name like a pod's": {"", "0::/podman/0123\n", ""},
		"empty file":        {"", "", ""},
		"blank environment": {" ", "0::/\n", ""},
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
		t.Errorf("without a file: %q", got)
	}
}
