package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

const (
	onePod    = "0b6d5b4e-9c1f-4c55-8a35-1f0e7f2a9d11"
	onePodRaw = "0b6d5b4e_9c1f_4c55_8a35_1f0e7f2a9d11"
)

// put writes a file of a cgroup and creates its directory.
func put(t *testing.T, h Hierarchy, place, file, text string) {
	t.Helper()
	makeDirs(t, h, place)
	if err := os.WriteFile(filepath.Join(h.Dir("memory", place), file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addProcess adds a process to a container of a pod, and marks the tree as populated on version
// 2.
func addProcess(t *testing.T, h Hierarchy, root, container string) {
	t.Helper()
	put(t, h, container, "cgroup.procs", "4711\n")
	if h.Version == V2 {
		put(t, h, root, "cgroup.events", "populated 1\nfrozen 0\n")
	}
}

// TestPodPlaces_FindsCgroupRootOfKubelet covers the pod directories of kubelets with a cgroup
// root, by driver.
func TestPodPlaces_FindsCgroupRootOfKubelet(t *testing.T) {
	for name, c := range map[string]struct{ node, kubelet, root, pod string }{
		"kind, systemd":            {"/", "/kubelet", "/kubelet.slice/kubelet-kubepods.slice", "kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + onePodRaw + ".slice"},
		"kind, cgroupfs":           {"/", "/kubelet", "/kubelet/kubepods", "burstable/pod" + onePod},
		"two levels with a dash":   {"/", "/a-b/c/", "/a_b.slice/a_b-c.slice/a_b-c-kubepods.slice", "a_b-c-kubepods-pod" + onePodRaw + ".slice"},
		"no cgroup root, systemd":  {"/", "", "/kubepods.slice", "kubepods-besteffort.slice/kubepods-besteffort-pod" + onePodRaw + ".slice"},
		"root of a nested node":    {"/nested", "/nested/kubelet", "/nested/kubelet/kubepods", "pod" + onePod},
		"root outside of the node": {"/nested", "/kubelet", "/nested/kubepods", "pod" + onePod},
		"node in a slice":          {"/kubelet.slice", "/kubelet", "/kubelet.slice/kubelet-kubepods.slice", "kubelet-kubepods-pod" + onePodRaw + ".slice"},
		"missing cgroup root":      {"/", "/kubelet", "/kubepods.slice", "kubepods-pod" + onePodRaw + ".slice"},
	} {
		t.Run(name, func(t *testing.T) {
			h := At(V2, t.TempDir())
			makeDirs(t, h, filepath.Join(c.root, c.pod, "cri-containerd-77.scope"))
			p := NewPodPlaces(h, c.node)
			p.Under(c.kubelet)
			tree, err := p.Open()
			if err != nil || tree.Root() != c.root || !p.Found() {
				t.Fatalf("%q, %v, want %q", tree.Root(), err, c.root)
			}
			if pod, err := tree.Find(onePod); err != nil || pod.Path != filepath.Join(c.root, c.pod) {
				t.Errorf("%+v, %v", pod, err)
			}
			if pods, err := tree.Pods(); err != nil || len(pods) != 1 || pods[0].UID != onePod {
				t.Errorf("%+v, %v", pods, err)
			}
			if uid, ok := ParsePodPath(filepath.Join(c.root, c.pod)); !ok || uid != onePod {
				t.Errorf("ParsePodPath = %q, %t, want %q", uid, ok, onePod)
			}
		})
	}
}

// TestPodPlaces_PrefersTreeWithProcesses checks that leftovers of another driver or another
// cgroup root do not hide the tree in use.
func TestPodPlaces_PrefersTreeWithProcesses(t *testing.T) {
	const stale, inUse = "/kubepods/burstable/pod11111111-1111-1111-1111-111111111111", "/kubepods.slice/kubepods-pod" + onePodRaw + ".slice"
	for _, v := range []Version{V1, V2} {
		h := At(v, t.TempDir())
		put(t, h, stale+"/0a", "cgroup.procs", "")
		put(t, h, "/kubepods", "cgroup.events", "populated 0\nfrozen 0\n")
		p := NewPodPlaces(h, "/")
		if tree, err := p.Open(); err != nil || tree.Root() != "/kubepods" {
			t.Errorf("%v: %q, %v, want the only tree", v, tree.Root(), err)
		}
		makeDirs(t, h, inUse)
		if tree, _ := p.Open(); tree.Root() != "/kubepods" {
			t.Errorf("%v: %q, want the first tree with a pod: no tree has a process", v, tree.Root())
		}
		addProcess(t, h, "/kubepods.slice", inUse+"/cri-containerd-77.scope/container")
		if tree, err := p.Open(); err != nil || tree.Root() != "/kubepods.slice" {
			t.Errorf("%v: %q, %v, want the tree with a process", v, tree.Root(), err)
		}
		addProcess(t, h, "/kubelet/kubepods", "/kubelet/kubepods/pod"+onePod+"/77")
		if !p.Under("/kubelet") || p.Under("/kubelet") {
			t.Error("Under did not report the change exactly once")
		}
		if tree, err := p.Open(); err != nil || tree.Root() != "/kubelet/kubepods" {
			t.Errorf("%v: %q, %v, want the kubelet's, one of two trees with processes", v, tree.Root(), err)
		}
	}
}

func TestPodPlaces_NotFoundWithoutDirectories(t *testing.T) {
	p := NewPodPlaces(At(V2, t.TempDir()), "/")
	p.Under("/kubelet")
	if tree, err := p.Open(); !errors.Is(err, fs.ErrNotExist) || tree.Root() != "" || p.Found() {
		t.Errorf("%+v, %v", tree, err)
	}
}

func BenchmarkPodPlacesFound(b *testing.B) {
	p := NewPodPlaces(At(V2, b.TempDir()), "/")
	p.Under("/kubelet")
	b.ReportAllocs()
	for b.Loop() {
		if p.Found() {
			b.Fatal("found")
		}
	}
}
