package chart_test

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/cri"
	"plimsoll.dev/plimsoll/internal/doctor/probe"
)

// presetDir has one file of values per platform.
var presetDir = filepath.Join(chart, "presets")

// preset returns the flag with which helm reads a preset.
func preset(name string) string { return "--values=" + filepath.Join(presetDir, name+".yaml") }

// presetCase is what a preset changes. Empty fields have the chart's default.
type presetCase struct {
	socketDir, runtimeRoot string            // of the runtime
	socket                 string            // of the runtime, on a node
	files                  map[string]string // extra volumes: path and type
	endpoint               string            // containerRuntimeEndpoint
	kubeletConfig          string
	cgroupRoot             string // kubeletCgroupRoot
	seLinuxType            string
	constraints            string // of OpenShift
	hard                   string // thresholds of the kubelet on the node in testdata
}

const (
	containerd    = "/run/containerd/containerd.sock"
	k3sContainerd = "/run/k3s/containerd/containerd.sock"
	k3sDropIns    = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
	rke2DropIns   = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"
	kubeletHard   = "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15% imagefs.inodesFree<5%]"
)

var presets = map[string]presetCase{
	"kind": {kubeletConfig: "/var/lib/kubelet/config.yaml", cgroupRoot: "/kubelet", socket: containerd, hard: "[]"},
	"k3s": {socketDir: "/run/k3s/containerd", runtimeRoot: "/var/lib/rancher/k3s/agent/containerd", socket: k3sContainerd, endpoint: "unix://" + k3sContainerd,
		kubeletConfig: k3sDropIns, files: map[string]string{k3sDropIns: "Directory"}, hard: "[memory.available<200Mi nodefs.available<5% imagefs.available<5%]"},
	"rke2": {socketDir: "/run/k3s/containerd", runtimeRoot: "/var/lib/rancher/rke2/agent/containerd", socket: k3sContainerd, endpoint: "unix://" + k3sContainerd,
		kubeletConfig: rke2DropIns, files: map[string]string{rke2DropIns: "Directory"}, hard: "[nodefs.available<5% imagefs.available<5%]"},
	"eks-al2023": {kubeletConfig: "/etc/kubernetes/kubelet/config.json", files: map[string]string{"/etc/kubernetes/kubelet": "Directory"}, socket: containerd,
		hard: "[memory.available<300Mi nodefs.available<10% nodefs.inodesFree<5%]"},
	"bottlerocket": {kubeletConfig: "/etc/kubernetes/kubelet/config", files: map[string]string{"/etc/kubernetes/kubelet/config": "File"}, socket: containerd,
		seLinuxType: "control_t", hard: kubeletHard},
	"gke-cos": {kubeletConfig: "/home/kubernetes/kubelet-config.yaml", files: map[string]string{"/home/kubernetes/kubelet-config.yaml": "File"}, socket: containerd,
		hard: "[memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% pid.available<10%]"},
	"openshift": {socketDir: "/run/crio", runtimeRoot: "/var/lib/containers", socket: "/run/crio/crio.sock", endpoint: "unix:///run/crio/crio.sock",
		kubeletConfig: "/etc/kubernetes/kubelet.conf", files: map[string]string{"/etc/kubernetes/kubelet.conf": "File", "/etc/openshift/kubelet.conf.d": "DirectoryOrCreate"},
		seLinuxType: "spc_t", constraints: "privileged",
		hard: "[memory.available<250Mi nodefs.available<10% nodefs.inodesFree<5% imagefs.available<15%]"},
	"talos": {kubeletConfig: "/etc/kubernetes/kubelet.yaml", files: map[string]string{"/etc/kubernetes/kubelet.yaml": "File"}, socket: containerd, hard: kubeletHard},
}

// or returns a value, or the chart's default for an empty one. The standard cmp.Or has the
// package name of go-cmp.
func or(value, standard string) string {
	if value == "" {
		return standard
	}
	return value
}

// hostPaths returns the wanted mounts of the host: "PATH TYPE" by path in the container.
func (c *presetCase) hostPaths() map[string]string {
	all := map[string]string{"/run/plimsoll": "/run/plimsoll DirectoryOrCreate", "/var/lib/plimsoll/recording": "/var/lib/plimsoll/recording DirectoryOrCreate",
		"/var/lib/plimsoll/decisions": "/var/lib/plimsoll/decisions DirectoryOrCreate", "/host/var/log/pods": "/var/log/pods DirectoryOrCreate"}
	for _, path := range []string{"/sys/fs/cgroup", "/var/lib/kubelet", or(c.socketDir, "/run/containerd"), or(c.runtimeRoot, "/var/lib/containerd")} {
		all["/host"+path] = path + " Directory"
	}
	for path, kind := range c.files {
		all["/host"+path] = path + " " + kind
	}
	return all
}

// mountsOf returns the mounts of the host in a pod's first container.
func mountsOf(spec *corev1.PodSpec) map[string]string {
	all := map[string]string{}
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil {
				all[m.MountPath] = v.HostPath.Path + " " + string(*v.HostPath.Type)
			}
		}
	}
	return all
}

// presetAgent returns the pod and the configuration of the agents with a preset.
func presetAgent(t *testing.T, helm *tool, name string) (*corev1.PodSpec, *agentconfig.Agent) {
	t.Helper()
	all := helm.made(t, preset(name))
	c, err := agentconfig.ParseFile([]byte(find[*corev1.ConfigMap](t, all, "ConfigMap/plimsoll-agent").Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	return &find[*appsv1.DaemonSet](t, all, "DaemonSet/plimsoll-agent").Spec.Template.Spec, c
}

// TestPresets_MountTheirPlatform checks every mount of the host and the agent's configuration.
// TestVariants_AreValid checks the rest of each preset.
func TestPresets_MountTheirPlatform(t *testing.T) {
	helm := needTool(t, "helm")
	for name, want := range presets {
		t.Run(name, func(t *testing.T) {
			spec, c := presetAgent(t, helm, name)
			if diff := cmp.Diff(want.hostPaths(), mountsOf(spec)); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"/host/sys/fs/cgroup", "/run/plimsoll", "/var/lib/plimsoll/recording", "/var/lib/plimsoll/decisions"}, written(spec.Containers[0])); diff != "" {
				t.Errorf("writes to (-want +got):\n%s", diff)
			}
			got := presetCase{endpoint: c.ContainerRuntimeEndpoint, kubeletConfig: c.KubeletConfig, cgroupRoot: c.KubeletCgroupRoot}
			if o := spec.Containers[0].SecurityContext.SELinuxOptions; o != nil {
				got.seLinuxType = o.Type
			}
			if got.endpoint != want.endpoint || got.kubeletConfig != want.kubeletConfig || got.cgroupRoot != want.cgroupRoot ||
				c.SoftEviction != agentconfig.NewAgent().SoftEviction || got.seLinuxType != want.seLinuxType {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestPresets_AreComplete checks that files, rows, variants and pages belong together.
func TestPresets_AreComplete(t *testing.T) {
	files := names(t, presetDir, ".yaml")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(presets)), files); diff != "" {
		t.Errorf("rows and files of %s (-rows +files):\n%s", presetDir, diff)
	}
	pages := ""
	for _, page := range names(t, filepath.Join(docs, "how-to", "platforms"), ".md") {
		pages += text(t, filepath.Join(docs, "how-to", "platforms", page+".md"))
	}
	for _, name := range files {
		if !slices.Equal(variants["preset "+name], []string{preset(name)}) {
			t.Errorf("agent_test.go: variants lacks %q", "preset "+name)
		}
		if file := "deploy/helm/plimsoll/presets/" + name + ".yaml"; !strings.Contains(pages, "--values="+file) {
			t.Errorf("no page of docs/how-to/platforms installs with --values=%s", file)
		}
	}
}

// TestPresets_PassLint checks every preset against the schema, as helm lint does.
func TestPresets_PassLint(t *testing.T) {
	helm := needTool(t, "helm")
	for name := range presets {
		helm.must(t, "lint", "--strict", chart, preset(name), "--kube-version="+kubernetesVersions[0])
	}
}

// platformNodes has the files of a node of each platform.
var platformNodes = filepath.Join("..", "..", "..", "internal", "doctor", "probe", "testdata", "platforms")

// mountNode creates the part of a node that a pod mounts, and the node's /proc. Its paths are those
// of the container below root, which is short: the path of a socket has at most 107 bytes.
func mountNode(t *testing.T, node string, spec *corev1.PodSpec) (root string) {
	t.Helper()
	root, err := os.MkdirTemp("", "preset")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	for inside, mount := range mountsOf(spec) {
		outside, _, _ := strings.Cut(mount, " ")
		copyTree(t, filepath.Join(node, outside), filepath.Join(root, inside))
	}
	copyTree(t, filepath.Join(node, "proc"), filepath.Join(root, "proc"))
	lists, err := filepath.Glob(filepath.Join(root, "proc", "*", "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lists {
		if err := os.WriteFile(file, bytes.ReplaceAll([]byte(text(t, file)), []byte("\n"), []byte{0}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// copyTree copies a file or a directory, unless it does not exist.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		return
	}
	if err == nil && info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else if err == nil {
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.WriteFile(to, []byte(text(t, from)), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPresets_FindKubeletAndRuntime checks that the mounts of a preset are enough: with them, on
// a node of the platform, the agent reads the kubelet's whole configuration and finds the socket.
func TestPresets_FindKubeletAndRuntime(t *testing.T) {
	helm := needTool(t, "helm")
	for name, want := range presets {
		t.Run(name, func(t *testing.T) {
			spec, c := presetAgent(t, helm, name)
			root := mountNode(t, filepath.Join(platformNodes, name), spec)
			host := filepath.Join(root, c.HostRoot)
			sources, err := probe.KubeletSources(filepath.Join(root, c.ProcRoot), host, c.KubeletConfig)
			if err != nil {
				t.Fatal(err)
			}
			if read, err := sources.Read(); err != nil || fmt.Sprint(read.Hard) != want.hard {
				t.Errorf("the kubelet's hard thresholds: %v, %v, want %s", read.Hard, err, want.hard)
			}
			if mountsOf(spec)["/host"+filepath.Dir(want.socket)] == "" {
				t.Fatalf("%s is not mounted: %v", want.socket, mountsOf(spec))
			}
			listen(t, filepath.Join(host, want.socket))
			if found, err := cri.Locate(c.ContainerRuntimeEndpoint, host); err != nil || found != "unix://"+filepath.Join(host, want.socket) {
				t.Errorf("the runtime: %s, %v, want %s", found, err, want.socket)
			}
		})
	}
}

// listen creates a socket until the end of the test.
func listen(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// TestOpenShift_AdmitsPods checks what OpenShift's admission requires: the agents' account may
// use the constraints of the preset. TestPodSecurityContext has the users of the other pods.
func TestOpenShift_AdmitsPods(t *testing.T) {
	helm := needTool(t, "helm")
	all := helm.made(t, preset("openshift"), `fullnameOverride="mark"`)
	binding := find[*rbacv1.RoleBinding](t, all, "RoleBinding/mark-agent-scc")
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: "mark-agent", Namespace: namespace}
	if role := binding.RoleRef; role.Kind != "ClusterRole" || role.Name != "system:openshift:scc:"+presets["openshift"].constraints || !slices.Equal(binding.Subjects, []rbacv1.Subject{subject}) {
		t.Errorf("constraints: %+v of %+v", role, binding.Subjects)
	}
	for name := range helm.made(t) {
		if strings.HasSuffix(name, "-scc") {
			t.Errorf("without securityContextConstraints there is %s", name)
		}
	}
}
