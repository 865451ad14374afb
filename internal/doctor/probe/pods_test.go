package probe

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/internal/cgroup"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

const (
	podOfKind = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podab_1.slice"
	podPlain  = "/kubepods/burstable/podab-1"
)

// layout is a tree of cgroups in which a process of a pod runs, beside empty ones.
type layout struct {
	pod   string
	empty []string
	root  string // the kubelet's cgroup root, as far as it is known
	node  string // empty: the machine
	seen  string // the process's cgroup in a container; empty: as on the host
}

func (l layout) search(t *testing.T) (found doctor.Pods) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range l.empty {
		put("cg"+place+"/cgroup.procs", "")
	}
	put("cg"+l.pod+"/cri-containerd-77.scope/cgroup.procs", "7\n")
	seen := l.seen
	if seen == "" {
		seen = l.pod + "/cri-containerd-77.scope"
	}
	put("proc/7/cgroup", "0::"+seen+"\n")
	put("proc/8/cgroup", "0::/system.slice/kubelet.service\n")
	o := NodeOptions{ProcRoot: filepath.Join(dir, "proc"), Ours: doctor.Ours{NodeCgroup: cmp.Or(l.node, "/")}}
	o.search(cgroup.At(cgroup.V2, filepath.Join(dir, "cg")), l.root, &found)
	return found
}

func TestSearch_Layouts(t *testing.T) {
	for name, c := range map[string]struct {
		layout
		root      string
		populated bool
		elsewhere string
	}{
		"kind":                       {layout{pod: podOfKind, root: "/kubelet"}, "/kubelet.slice/kubelet-kubepods.slice", true, ""},
		"kind, unknown kubelet":      {layout{pod: podOfKind}, "", false, podOfKind},
		"kind in a cgroup namespace": {layout{pod: podOfKind, seen: "/../../.." + podOfKind + "/x"}, "", false, podOfKind},
		"kind, stale cgroup":         {layout{pod: podOfKind, empty: []string{podPlain}}, "/kubepods", false, podOfKind},
		"pod of another node":        {layout{pod: "/b" + podPlain, empty: []string{"/a/kubepods"}, node: "/a"}, "/a/kubepods", false, ""},
		"kubeadm":                    {layout{pod: "/kubepods.slice/kubepods-podab_1.slice"}, "/kubepods.slice", true, ""},
		"kubeadm, stale cgroup of another driver": {layout{pod: "/kubepods.slice/kubepods-podab_1.slice", empty: []string{podPlain}}, "/kubepods.slice", true, ""},
		"cgroupfs, kubelet root":                  {layout{pod: "/kubelet" + podPlain, root: "/kubelet"}, "/kubelet/kubepods", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.search(t)
			if got.Root != c.root || got.Populated != c.populated || got.Elsewhere != c.elsewhere || len(got.Places) < 2 {
				t.Errorf("%+v", got)
			}
			f := doctor.Facts{Pods: doctor.Known(got), Kubelet: doctor.Known(doctor.Kubelet{Present: true}), Ours: doctor.Ours{PodManifests: "/pods"}}
			missing := strings.Contains(strings.Join(doctor.Errors(doctor.Examine(f), nil), " "), "pods-cgroup-missing")
			if missing != (!c.populated && c.elsewhere != "") {
				t.Errorf("pods-cgroup-missing is %t", missing)
			}
		})
	}
}

func TestKubeletSources_CgroupRoot(t *testing.T) {
	file := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, c := range map[string]struct {
		s    kubeletconfig.Sources
		want string
	}{
		"none":       {kubeletconfig.Sources{File: []byte(file)}, ""},
		"file":       {kubeletconfig.Sources{File: []byte(file + "cgroupRoot: /kubelet\ncgroupDriver: systemd\n")}, "/kubelet"},
		"drop-in":    {kubeletconfig.Sources{File: []byte(file), DropIns: [][]byte{[]byte(file + "cgroupRoot: /b\n")}}, "/b"},
		"flag":       {kubeletconfig.Sources{File: []byte(file + "cgroupRoot: /a\n"), Args: []string{"kubelet", "--cgroup-root=/c"}}, "/c"},
		"other flag": {kubeletconfig.Sources{File: []byte(file + "cgroupRoot: /a\n"), Args: []string{"kubelet", "--cgroup-driver=systemd"}}, "/a"},
	} {
		if got, err := c.s.Read(); err != nil || got.CgroupRoot != c.want {
			t.Errorf("%s: %q, %v", name, got.CgroupRoot, err)
		}
	}
	answer, err := kubeletconfig.ReadConfigz([]byte(`{"kubeletconfig":{"cgroupRoot":"/kubelet"}}`))
	if err != nil || answer.CgroupRoot != "/kubelet" {
		t.Errorf("/configz: %q, %v", answer.CgroupRoot, err)
	}
}
