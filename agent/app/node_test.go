package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/stats"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// Cgroups are read before an eviction with any stats provider: the confirming check needs
// recent counters.
func TestMeasure_ReadsCgroupsBesideProvider(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	pod := h.Dir("memory", "/kubepods/podab")
	if err := os.MkdirAll(pod, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.current": "1\n", "memory.stat": "none\n", "pids.current": "7\n"} {
		if err := os.WriteFile(filepath.Join(pod, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{cgroups: stats.OpenPods(h, "/"), provider: cgrouplessProvider{}, source: onePod{}, directories: stats.OpenDirectories(stats.DirectoryOptions{})}
	defer n.cgroups.Close()
	if got := n.Measure(t.Context()); len(got) != 1 || got[0].Usage.Tasks != signals.Of[signals.PIDs](7) {
		t.Errorf("%+v", got)
	}
	if n.cgroups.Err() == nil {
		t.Error("the invalid memory.stat was not read")
	}
}

// The memory that is freed with a pod comes from its cgroup, whatever measures its working set.
func TestMeasure_ReadsReliefBesideProvider(t *testing.T) {
	h := cgroup.At(cgroup.V2, t.TempDir())
	pod := h.Dir("memory", "/kubepods/podab")
	if err := os.MkdirAll(pod, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"memory.current": "1000000\n", "memory.stat": "anon 300000\nfile 700000\nactive_file 600000\ninactive_file 100000\n"} {
		if err := os.WriteFile(filepath.Join(pod, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{cgroups: stats.OpenPods(h, "/"), provider: cgrouplessProvider{}, source: onePod{}, directories: stats.OpenDirectories(stats.DirectoryOptions{})}
	defer n.cgroups.Close()
	if got := n.Measure(t.Context()); len(got) != 1 || got[0].Usage.MemoryRelief != signals.Of[signals.Bytes](300_000) || got[0].Usage.Memory.Known {
		t.Errorf("%+v", got)
	}
}

// A pod between two runs of a crashing container is ranked for the disk space that its end frees.
func TestHoldsDisk_CountsDeadContainers(t *testing.T) {
	bytes := func(n signals.Bytes) signals.FilesystemUsage {
		return signals.FilesystemUsage{Bytes: signals.Of(n)}
	}
	for about, tc := range map[string]struct {
		usage signals.Usage
		runs  bool
		want  bool
	}{
		"nothing":                 {signals.Usage{}, false, false},
		"logs":                    {signals.Usage{EphemeralStorage: signals.Of(minHeld)}, false, true},
		"dead layers":             {signals.Usage{OtherLayers: bytes(minHeld)}, false, true},
		"both together":           {signals.Usage{EphemeralStorage: signals.Of(minHeld / 2), OtherLayers: bytes(minHeld / 2)}, false, true},
		"less":                    {signals.Usage{EphemeralStorage: signals.Of(minHeld / 2), OtherLayers: bytes(minHeld/2 - 1)}, false, false},
		"dead layer not reported": {signals.Usage{OtherLayers: signals.FilesystemUsage{Incomplete: "not reported"}}, false, true},
		"a container runs":        {signals.Usage{OtherLayers: bytes(minHeld)}, true, false},
	} {
		c := signals.Candidate{Pod: &signals.Pod{Containers: []signals.Container{{Name: "app"}}}, Usage: &tc.usage}
		if tc.runs {
			c.Pod.Containers[0].ID = "id"
		}
		if got := holdsDisk(&c); got != tc.want {
			t.Errorf("%s: %t", about, got)
		}
	}
}

type onePod struct{}

func (onePod) pods() []signals.Pod { return []signals.Pod{{UID: "ab"}} }

func (onePod) fault() error { return nil }

// cgrouplessProvider measures without cgroups.
type cgrouplessProvider struct{ stats.Provider }

func (cgrouplessProvider) Measure(pods []signals.Pod, into []signals.Candidate) []signals.Candidate {
	for i := range pods {
		into = append(into, signals.Candidate{Pod: &pods[i], Usage: &signals.Usage{}})
	}
	return into
}

// newNodeV1 returns an empty node on cgroup v1.
func newNodeV1(t *testing.T) *sandbox.Node {
	t.Helper()
	sandbox.Need(t)
	h, err := cgroup.Detect("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != cgroup.V1 {
		t.Skip("cgroup v2 kills a pod without pids.max")
	}
	return sandbox.Make(t, "restore", 64<<20)
}

// An interruptedKill is the directory, in the pids tree, of a pod with a kill that the end of
// the agent interrupted.
type interruptedKill string

func (dir interruptedKill) interrupt(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(string(dir), "pids.max"), []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(string(dir), "user.plimsoll.pids-max", []byte("42\n"), 0); err != nil {
		t.Fatal(err)
	}
}

func (dir interruptedKill) expect(t *testing.T, want string) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(string(dir), "pids.max")); string(text) != want+"\n" || err != nil {
		t.Errorf("pids.max is %q, %v, want %s", text, err, want)
	}
}

// The next agent restores the state after an interrupted kill.
func TestOpenNode_RestoresPidsMax(t *testing.T) {
	box := newNodeV1(t)
	made, err := box.AddPod("6f1d0d7c-2b4e-4a51-9c8a-000000000004", sandbox.BestEffort, "main")
	if err != nil {
		t.Fatal(err)
	}
	pod := interruptedKill(made.Dir("pids"))
	pod.interrupt(t)
	n, err := openNode(&config.Agent{ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", NodeCgroup: box.Path()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n.close()
	pod.expect(t, "42")
}

// The kubelet's configuration may add a cgroup root. Once pods are searched there, a pids.max
// of 0 may belong to a kill under way.
func TestKubeletDetector_RestoresPidsMaxOncePerPlace(t *testing.T) {
	box := newNodeV1(t)
	const below = "kubelet/kubepods/besteffort/pod6f1d0d7c-2b4e-4a51-9c8a-000000000005"
	for _, controller := range []string{"memory", "pids"} {
		if err := os.MkdirAll(filepath.Join(box.Dir(controller), below), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pod := interruptedKill(filepath.Join(box.Dir("pids"), below))
	pod.interrupt(t)
	c := &config.Agent{ProcRoot: "/proc", CgroupRoot: "/sys/fs/cgroup", NodeCgroup: box.Path()}
	c.HostRoot, c.KubeletConfig = "/", filepath.Join(t.TempDir(), "config.yaml")
	log := slog.New(slog.DiscardHandler)
	n, err := openNode(c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	kubelet := detectKubelet(c, nil, n.findPods, log)
	pod.expect(t, "0")
	configure := func(root string) {
		text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: %s\n", root)
		if err := os.WriteFile(c.KubeletConfig, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		kubelet.read()
	}
	configure(box.Path() + "/kubelet")
	pod.expect(t, "42")
	pod.interrupt(t)
	for _, root := range []string{"/", box.Path() + "/kubelet"} {
		configure(root)
	}
	pod.expect(t, "0")
	if tree, err := n.places.Open(); err != nil || tree.Root() != box.Path()+"/kubelet/kubepods" {
		t.Errorf("pods are searched in %s, %v", tree.Root(), err)
	}
}
