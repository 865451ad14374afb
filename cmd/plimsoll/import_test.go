package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/how-to/platforms, on the nodes of those platforms.
func TestImport_ReadsEachPlatform(t *testing.T) {
	for _, c := range []struct {
		platform, file, dropIns string
		agent, kubelet          []string // lines of the two documents
	}{
		{"k3s", "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf", "var/lib/rancher/k3s/agent/etc/kubelet.conf.d",
			[]string{`memory.available: "200Mi"`, `nodefs.available: "6.25%"`, "imageGCHighThresholdPercent: 75"}, []string{`memory.available: "100Mi"`}},
		{"rke2", "var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf", "var/lib/rancher/rke2/agent/etc/kubelet.conf.d",
			[]string{`nodefs.available: "6.25%"`, "imageGCLowThresholdPercent: 60"}, []string{`imagefs.available: "2.5%"`}},
		{"eks-al2023", "etc/kubernetes/kubelet/config.json", "etc/kubernetes/kubelet/config.json.d",
			[]string{`memory.available: "300Mi"`, "imageGCHighThresholdPercent: 80", `memory: "574Mi"`}, []string{`memory.available: "150Mi"`, `memory: "150Mi"`}},
		{"openshift", "etc/kubernetes/kubelet.conf", "etc/openshift/kubelet.conf.d",
			[]string{`memory.available: "250Mi"`}, []string{`memory.available: "125Mi"`, `ephemeral-storage: "1Gi"`}},
		{"kind", "var/lib/kubelet/config.yaml", "", []string{"evictionHard: {}", "imageGCHighThresholdPercent: 100"}, nil},
		{"bottlerocket", "etc/kubernetes/kubelet/config", "", []string{`memory.available: "100Mi"`}, []string{`memory.available: "50Mi"`}},
		{"gke-cos", "home/kubernetes/kubelet-config.yaml", "", []string{`pid.available: "10%"`}, []string{`pid.available: "5%"`}},
		{"talos", "etc/kubernetes/kubelet.yaml", "", []string{`memory.available: "100Mi"`}, []string{`memory: "242Mi"`}},
	} {
		node := filepath.Join("..", "..", "internal", "doctor", "probe", "testdata", "platforms", c.platform)
		args := []string{"import-kubelet-config", filepath.Join(node, c.file)}
		if c.dropIns != "" {
			args = append(args, "--drop-in="+filepath.Join(node, c.dropIns))
		}
		status, out, errs := plimsoll("", args...)
		agent, kubelet, both := strings.Cut(out, "\n---\n")
		if status != 0 || !both {
			t.Errorf("%s: status %d: %s%s", c.platform, status, out, errs)
			continue
		}
		checkLines(t, c.platform+", agent", agent, c.agent)
		checkLines(t, c.platform+", kubelet", kubelet, c.kubelet)
	}
}

func checkLines(t *testing.T, where, text string, lines []string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") && !strings.HasSuffix(text, line) {
			t.Errorf("%s: no line %s in\n%s", where, line, text)
		}
	}
}

// A second import has the results of the first one. The drop-in file of that is in the kubelet's directory by then.
func TestImport_Repeated(t *testing.T) {
	dir := t.TempDir()
	file, dropIns := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "kubelet.conf.d")
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	if err := os.Mkdir(dropIns, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{file: head, filepath.Join(dropIns, "10-own.conf"): head + "evictionHard: {memory.available: 1Gi}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const note = "note: left out 99-plimsoll.conf, which an earlier import wrote\n"
	var first string
	for i := range 2 {
		status, out, errs := plimsoll("", "import-kubelet-config", file, "--drop-in="+dropIns)
		if status != 0 || strings.Contains(errs, note) != (i == 1) {
			t.Errorf("import %d: status %d, %s", i+1, status, errs)
		}
		if i == 1 {
			if out != first {
				t.Errorf("the second import wrote\n%s\nthe first one\n%s", out, first)
			}
			continue
		}
		_, kubelet, _ := strings.Cut(out, "\n---\n")
		checkLines(t, "kubelet", kubelet, []string{`memory.available: "512Mi"`})
		if err := os.WriteFile(filepath.Join(dropIns, importedKubelet), []byte(kubelet), 0o644); err != nil {
			t.Fatal(err)
		}
		first = out
	}
	status, out, errs := plimsoll("", "import-kubelet-config", file, "--drop-in="+dropIns+".none")
	if status != exitFailed || out != "" || !strings.Contains(errs, "no such directory; leave --drop-in out if the kubelet has no --config-dir") {
		t.Errorf("a missing directory: status %d, %s%s", status, out, errs)
	}
}
