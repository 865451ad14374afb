package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	agentconfig "plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/internal/options"
	controllerconfig "plimsoll.dev/plimsoll/lifecycle/config"
)

func TestConfigCheck_OutputAndExitStatus(t *testing.T) {
	const (
		agentHead      = "apiVersion: plimsoll.dev/v1alpha1\nkind: AgentConfiguration\n"
		controllerHead = "apiVersion: plimsoll.dev/v1alpha1\nkind: ControllerConfiguration\n"
	)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.yaml":      agentHead + "evictionHard: {memory.available: 500Mi}\n",
		"controller.yaml": controllerHead + "mode: replace\nleaderElect: false\n",
		"faulty.yaml":     agentHead + "evictionHard: {mem: 500Mib}\nmonitoringPeriod: soon\ncolour: red\n",
		"modus.yaml":      controllerHead + "mode: modus\nmaxUnhealthy: 200%\n",
		"kubelet.yaml":    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
		"none.yaml":       "evictionHard: {}\n",
		"broken.yaml":     "a: [\n",
		"socket.yaml":     agentHead + "containerRuntimeEndpoint: tcp://127.0.0.1:1\n",
		"large.yaml":      agentHead + strings.Repeat("#\n", options.MaxFileBytes/2),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, test := range []struct {
		args   string
		status int
		out    string
		errs   []string
	}{
		{"agent.yaml controller.yaml", 0, "agent.yaml: valid AgentConfiguration\ncontroller.yaml: valid ControllerConfiguration\n", []string{"controller.yaml: warning: "}},
		{"faulty.yaml modus.yaml agent.yaml", exitInvalid, "agent.yaml: valid AgentConfiguration\n", []string{
			"faulty.yaml: evictionHard.mem: 500Mib: ", "faulty.yaml: monitoringPeriod: \"soon\": ", "faulty.yaml: colour", "modus.yaml: mode: \"modus\": ", "modus.yaml: maxUnhealthy: \"200%\": "}},
		{"kubelet.yaml none.yaml broken.yaml", exitInvalid, "", []string{"kubelet.yaml: kind: \"KubeletConfiguration\": must be AgentConfiguration or ControllerConfiguration", "none.yaml: kind: required", "broken.yaml: "}},
		{"socket.yaml", exitInvalid, "", []string{"socket.yaml: containerRuntimeEndpoint: "}},
		{"missing.yaml large.yaml", exitFailed, "", []string{"missing.yaml", "large.yaml: it is larger than"}},
		{"missing.yaml faulty.yaml", exitInvalid, "", []string{"missing.yaml", "faulty.yaml: "}},
		{"", exitInvalid, "", []string{"needs a file"}},
	} {
		status, out, errs := plimsoll("", append([]string{"config", "check"}, strings.Fields(test.args)...)...)
		if status != test.status || out != test.out {
			t.Errorf("%s: %d, want %d: %s%s", test.args, status, test.status, out, errs)
		}
		for _, words := range test.errs {
			if !strings.Contains(errs, words) {
				t.Errorf("%s: no %q in\n%s", test.args, words, errs)
			}
		}
	}
	if status, out, errs := plimsoll(agentHead, "config", "check", "-"); status != 0 || out != "-: valid AgentConfiguration\n" {
		t.Errorf("standard input: %d: %s%s", status, out, errs)
	}
	if status, _, errs := plimsoll("", "config", "chekc"); status != exitInvalid || !strings.Contains(errs, "check") {
		t.Errorf("unknown command: %d: %s", status, errs)
	}
}

// A file is valid if it is valid for one of the two programs.
func FuzzCheckConfig(f *testing.F) {
	for _, kind := range []string{agentconfig.Kind, controllerconfig.Kind, "KubeletConfiguration"} {
		for _, text := range []string{"", "evictionHard: {memory.available: 100Mi}\n", "mode: replace\n", "containerRuntimeEndpoint: none\n"} {
			f.Add([]byte(options.FileHead(kind) + text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, _, err := checkConfig(data)
		agent, ofAgent := agentconfig.ParseFile(data)
		_, ofController := controllerconfig.ParseFile(data)
		if ofAgent == nil && agent.ContainerRuntimeEndpoint != "" {
			return // checkConfig also checks the form of the endpoint
		}
		if (err == nil) != (ofAgent == nil || ofController == nil) || err == nil && (kind == agentconfig.Kind) != (ofAgent == nil) {
			t.Errorf("kind %q: %v; the agent: %v; the controller: %v", kind, err, ofAgent, ofController)
		}
	})
}
