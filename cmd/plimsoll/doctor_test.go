package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/doctor"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
)

// on returns the arguments for a node of files: one process, no swap, no kubelet and no runtime.
func on(t *testing.T, kernel string) []string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"1/comm": "init\n", "2/comm": "kthreadd\n", "meminfo": "MemTotal: 16777216 kB\nSwapTotal: 0 kB\n",
		"pressure/memory": "some avg10=0.00\n", "sys/kernel/osrelease": kernel} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", root)
	return []string{"doctor", "--proc-root=" + root, "--container-runtime-endpoint=none", "--kubelet-config=/nowhere", "--max-fill-rate=1Gi",
		"--state-file=" + root + "/state", "--pod-manifests=" + root + "/pressure", "--disarm-file=" + root + "/disarm", "-o", "json"}
}

func TestDoctor_ExitStatus(t *testing.T) {
	for name, test := range map[string]struct {
		kernel string
		args   []string
		status int
		want   string
	}{
		"no finding":          {"6.1.0", nil, 0, ""},
		"no source of pods":   {"6.1.0", []string{"--pod-manifests="}, exitFindings, "errors found"},
		"error finding":       {"4.19.0", nil, exitFindings, "errors found"},
		"unknown flag":        {"6.1.0", []string{"--colour"}, exitInvalid, "--colour"},
		"unknown format":      {"6.1.0", []string{"-o", "xml"}, exitInvalid, "must be text or json"},
		"faulty thresholds":   {"6.1.0", []string{"--eviction-hard=memory.available<lots"}, exitInvalid, "must be a quantity"},
		"missing kubeconfig":  {"6.1.0", []string{"--kubeconfig=/nowhere"}, exitFailed, "read the kubeconfig"},
		"no cluster":          {"6.1.0", []string{"--cluster"}, exitFailed, "no API server is known"},
		"unreadable facts":    {"6.1.0", []string{"--disarm-file=/proc/1/comm/disarm"}, exitFailed, "some facts could not be read"},
		"positional argument": {"6.1.0", []string{"node-1"}, exitInvalid, "takes no arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, errs := plimsoll("", append(on(t, test.kernel), test.args...)...)
			if status != test.status || !strings.Contains(errs, test.want) {
				t.Errorf("status %d, want %d: %s", status, test.status, errs)
			}
		})
	}
}

func TestDoctor_Output(t *testing.T) {
	_, out, _ := plimsoll("", on(t, "4.19.0")...)
	var got struct {
		Errors, Warnings int
		Findings         []doctor.Finding
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Errors != 1 || got.Findings[0].Code != "kernel-old" || got.Findings[0].Severity != doctor.Error {
		t.Errorf("%v: %s", err, out)
	}
	_, out, _ = plimsoll("", append(on(t, "4.19.0"), "-o", "text")...)
	if !strings.HasPrefix(out, "error kernel-old\n  the kernel is 4.19.0, older than 5.3\n  Remedy: run a kernel") || !strings.Contains(out, "1 errors, 0 warnings") {
		t.Errorf("%s", out)
	}
}

func TestImport_KubeletConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 1Gi, nodefs.available: 10%}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, errs := plimsoll("", "import-kubelet-config", file, "--capacity=ephemeral-storage=100Gi")
	agent, kubelet, two := strings.Cut(out, "\n---\n")
	if status != 0 || !two || strings.Contains(errs, "percentage") {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	if c, err := config.ParseFile([]byte(agent)); err != nil || c.EvictionHard.Settings[0].Text != "256Mi" || c.EvictionHard.Settings[2].Text != "10%" {
		t.Errorf("%v: %s", err, agent)
	}
	k, err := kubeletconfig.Read([]byte(kubelet))
	if err != nil || k.Hard[1].Text != "5%" || k.Hard[1].Signal != signals.NodefsAvailable {
		t.Errorf("%v: %s", err, kubelet)
	}
	status, out, errs = plimsoll("", "import-kubelet-config", file, "-d", filepath.Join(dir, "out"))
	if written, err := os.ReadFile(filepath.Join(dir, "out", importedAgent)); status != 0 || out != "" || err != nil || !strings.Contains(string(written), "12.5%") || !strings.Contains(errs, "note: nodefs.available") {
		t.Errorf("status %d: %v: %s%s", status, err, written, errs)
	}
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{file, file}, exitInvalid, "takes one file"},
		{[]string{file, "--capacity=memory=0"}, exitInvalid, "--capacity=memory"},
		{[]string{file, "--kubelet-flags=--eviction-hard=memory.available<lots"}, exitInvalid, "evictionHard[memory.available]"},
		{[]string{file, "--kubelet-flags=--eviction-minimum-reclaim=memory.available=0%"}, exitInvalid, "must be above 0%"},
		{[]string{filepath.Join(dir, "none")}, exitFailed, "read the kubelet's configuration"},
	} {
		if status, _, errs := plimsoll("", append([]string{"import-kubelet-config"}, test.args...)...); status != test.status || !strings.Contains(errs, test.want) {
			t.Errorf("%v: status %d: %s", test.args, status, errs)
		}
	}
}
