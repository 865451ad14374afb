package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/doctor"
)

// platform is a node of testdata/platforms, and what is found on it.
type platform struct {
	config string // kubeletConfig of the chart's preset
	source string
	hard   string // the kubelet's hard thresholds
	gcHigh int64  // the kubelet's imageGCHighThresholdPercent
	root   string // the kubelet's cgroup root
	pods   string // the cgroup of all pods
}

var platforms = map[string]platform{
	"kind": {
		config: "/var/lib/kubelet/config.yaml", source: "/var/lib/kubelet/config.yaml and the command line of process 214",
		hard: "[]", gcHigh: 100, root: "/kubelet", pods: "/kubelet.slice/kubelet-kubepods.slice"},
	"k3s": { // no process has the name kubelet
		config: "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d", source: "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
		hard: "[memory.available<200Mi nodefs.available<5% imagefs.available<5%]", gcHigh: 75, pods: "/kubepods.slice"},
	"rke2": { // a flag overrides the files
		config: "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", source: "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d and the command line of process 905",
		hard: "[nodefs.available<5% imagefs.available<5%]", gcHigh: 70, pods: "/kubepods.slice"},
	"eks-al2023": {
		config: "/etc/kubernetes/kubelet/config.json", source: "/etc/kubernetes/kubelet/config.json and the command line of process 1650 and /etc/kubernetes/kubelet/config.json.d",
		hard: "[memory.available<300Mi nodefs.available<10% nodefs.inodesFree<5%]", gcHigh: 80, root: "/", pods: "/kubepods.slice"},
	"bottlerocket": {
		config: "/etc/kubernetes/kubelet/config", source: "/etc/kubernetes/kubelet/config and the command line of process 1402",
		hard:   "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%]",
		gcHigh: 85, root: "/", pods: "/kubepods.slice"},
	"gke-cos": {
		config: "/home/kubernetes/kubelet-config.yaml", source: "/home/kubernetes/kubelet-config.yaml and the command line of process 1288",
		hard: "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% pid.available<10%]", gcHigh: 85, root: "/", pods: "/kubepods.slice"},
	"openshift": {
		config: "/etc/kubernetes/kubelet.conf", source: "/etc/kubernetes/kubelet.conf and the command line of process 2371 and /etc/openshift/kubelet.conf.d",
		hard: "[memory.available<250Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15%]", gcHigh: 85, root: "/", pods: "/kubepods.slice"},
	"talos": { // cgroups by the driver cgroupfs
		config: "/etc/kubernetes/kubelet.yaml", source: "/etc/kubernetes/kubelet.yaml and the command line of process 1733",
		hard:   "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%]",
		gcHigh: 85, root: "/", pods: "/kubepods"},
}

// nodeOf copies the node of a platform, with command lines as the kernel writes them.
func nodeOf(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "platforms", name))); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Join(dir, "proc"), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cmdline" {
			return err
		}
		lines, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(file, bytes.ReplaceAll(lines, []byte("\n"), []byte{0}), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// optionsOf returns the inputs of a probe of a platform's node.
func optionsOf(dir string, p *platform) NodeOptions {
	return NodeOptions{HostRoot: dir, ProcRoot: filepath.Join(dir, "proc"), CgroupRoot: filepath.Join(dir, "sys/fs/cgroup"),
		KubeletConfig: p.config, KubeletRoot: "/var/lib/kubelet", Ours: doctor.Ours{NodeCgroup: "/"}}
}

// The doctor reads the kubelet's configuration on the node of every preset.
func TestNode_ReadsKubeletOfEachPlatform(t *testing.T) {
	for name, p := range platforms {
		t.Run(name, func(t *testing.T) {
			fact := Node(t.Context(), optionsOf(nodeOf(t, name), &p)).Kubelet
			k := fact.Value
			if !fact.Known || !k.Present || k.Source != p.source {
				t.Fatalf("%+v\nwant the source %s", fact, p.source)
			}
			if hard := fmt.Sprint(k.Config.Hard); hard != p.hard || k.Config.ImageGC.HighPercent != p.gcHigh || k.Config.CgroupRoot != p.root {
				t.Errorf("hard thresholds %s, image collection from %d%% on, cgroup root %q; want %s, %d%%, %q",
					hard, k.Config.ImageGC.HighPercent, k.Config.CgroupRoot, p.hard, p.gcHigh, p.root)
			}
		})
	}
}

// The agent's reader returns the same sources, and an import accepts them.
func TestKubeletSources_ImportsEachPlatform(t *testing.T) {
	unknown := func(signals.Signal) signals.Amount { return 0 }
	for name, p := range platforms {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(nodeOf(t, name), &p)
			sources, err := KubeletSources(o.ProcRoot, o.HostRoot, o.KubeletConfig)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := sources.Read(); err != nil || fmt.Sprint(c.Hard) != p.hard {
				t.Errorf("hard thresholds %v, %v, want %s", c.Hard, err, p.hard)
			}
			if shared, err := sources.Share(unknown); err != nil || len(shared.Agent) == 0 || len(shared.Kubelet) == 0 {
				t.Errorf("import: %+v, %v", shared, err)
			}
		})
	}
}

// The pods of every platform are found below the kubelet's cgroup root, by the names of its driver.
func TestSearch_FindsPodsOfEachPlatform(t *testing.T) {
	for name, p := range platforms {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(nodeOf(t, name), &p)
			var found doctor.Pods
			o.search(cgroup.At(cgroup.V2, o.CgroupRoot), p.root, &found)
			if found.Root != p.pods || !found.Populated {
				t.Errorf("%+v, want pods in %s", found, p.pods)
			}
		})
	}
}

// Every directory of testdata/platforms has a row.
func TestPlatforms_AreComplete(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("testdata", "platforms"))
	if err != nil {
		t.Fatal(err)
	}
	directories := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		directories++
		if _, there := platforms[e.Name()]; !there {
			t.Errorf("testdata/platforms/%s is not tested", e.Name())
		}
	}
	if directories != len(platforms) {
		t.Errorf("%d directories, %d rows", directories, len(platforms))
	}
}

// A directory without drop-in files shows a kubelet, but not its configuration.
func TestKubeletSources_RejectsEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "kubelet.conf.d", "README"), 0o755); err != nil {
		t.Fatal(err)
	}
	if s, err := KubeletSources("/nowhere", dir, "/kubelet.conf.d"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no file *.conf") {
		t.Errorf("%+v, %v", s, err)
	}
}
