package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"
)

const (
	agentUnit    = "plimsoll-agent.service"
	agentDir     = "/etc/plimsoll"
	divisionFile = work + "/division.json"
	// originalConfig is the kubelet's main file: the configuration that the tests wrote, undivided.
	originalConfig = work + "/kubelet.yaml"
	kubeletUser    = work + "/kubelet.kubeconfig"
	adminUser      = work + "/admin.kubeconfig"
	kubeletHealth  = "http://127.0.0.1:10248/healthz"
	program        = suiteDir + "/nodee2e"
	dropInFile     = "99-plimsoll.conf"
)

// installPlimsoll installs the agent's unit, and this program in place of the kubelet.
func installPlimsoll(more []string) error {
	unit, err := os.ReadFile("/here/deploy/plimsoll-agent.service")
	if err != nil {
		return err
	}
	flags := append([]string{
		"--config=" + agentDir + "/agent.yaml", "--kubeconfig=" + agentDir + "/kubeconfig", "--hostname-override=" + nodeName,
		"--container-runtime-endpoint=unix://" + socket, "--kubelet-config=" + originalConfig,
		"--dry-run=false", "--soft-eviction=direct", "-v=2",
	}, more...)
	override := "[Service]\nExecStartPre=+" + program + " await-kubelet\nExecStart=\nExecStart=" + here + "/plimsoll agent " + strings.Join(flags, " ") +
		"\nTimeoutStartSec=10min\nStandardOutput=append:" + reports + "/plimsoll.log\nStandardError=append:" + reports + "/plimsoll.log\n"
	return errors.Join(
		writeFile("/etc/systemd/system/"+agentUnit, string(unit), 0o644),
		writeFile("/etc/systemd/system/"+agentUnit+".d/suite.conf", override, 0o644),
		writeFile(binDir+"/kubelet", "#!/bin/sh\nexec "+program+" kubelet \"$@\"\n", 0o755),
		command("systemctl", "daemon-reload"),
	)
}

// runKubelet divides the configuration that the tests wrote, starts the agent with its part, and
// continues as the kubelet.
func runKubelet(args []string) error {
	if err := command("systemctl", "stop", agentUnit); err != nil {
		return err
	}
	file, dropIns, kubeconfig := flagOf(args, "--config"), flagOf(args, "--config-dir"), flagOf(args, "--kubeconfig")
	if file == "" || dropIns == "" || kubeconfig == "" {
		return fmt.Errorf("kubelet %s: want --config, --config-dir and --kubeconfig", strings.Join(args, " "))
	}
	if err := divideConfig(file, dropIns); err != nil {
		return fmt.Errorf("divide %s: %w", file, err)
	}
	if err := writeKubeconfigs(kubeconfig); err != nil {
		return err
	}
	if err := command("systemctl", "start", "--no-block", agentUnit); err != nil {
		return err
	}
	setFlag(args, "--config", originalConfig)
	setFlag(args, "--kubeconfig", kubeletUser)
	kubelet := components + "/kubelet"
	return fmt.Errorf("execute %s: %w", kubelet, syscall.Exec(kubelet, append([]string{kubelet}, args...), os.Environ()))
}

// divideConfig has plimsoll import the configuration, and puts both parts in their places.
func divideConfig(file, dropIns string) error {
	var written config
	if err := readYAML(file, &written); err != nil {
		return err
	}
	var last division
	text, err := os.ReadFile(divisionFile)
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want := original(written, last)
	if text, err = yaml.Marshal(want); err != nil {
		return err
	}
	if err := writeFile(originalConfig, string(text), 0o644); err != nil {
		return err
	}
	capacity, err := machineCapacity()
	if err != nil {
		return err
	}
	imported := work + "/imported"
	if err := command(here+"/plimsoll", "import-kubelet-config", originalConfig, "--capacity="+capacity, "--output-dir="+imported); err != nil {
		return err
	}
	var dropIn config
	if err := readYAML(filepath.Join(imported, dropInFile), &dropIn); err != nil {
		return err
	}
	d, err := divide(want, dropIn)
	if err != nil {
		return err
	}
	if text, err = json.Marshal(d); err != nil {
		return err
	}
	return errors.Join(
		writeFile(divisionFile, string(text), 0o644),
		copyText(filepath.Join(dropIns, dropInFile), filepath.Join(imported, dropInFile)),
		copyText(agentDir+"/agent.yaml", filepath.Join(imported, "agent.yaml")),
		record(originalConfig), record(filepath.Join(imported, dropInFile)), record(agentDir+"/agent.yaml"),
	)
}

// record adds a copy of a file to the reports.
func record(name string) error {
	return copyText(fmt.Sprintf("%s/%s-%s", reports, time.Now().Format("150405"), filepath.Base(name)), name)
}

func copyText(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, string(text), 0o644)
}

func readYAML(name string, into *config) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// machineCapacity returns the node's capacity in the form of --capacity.
func machineCapacity() (string, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", err
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return "", fmt.Errorf("read /proc/meminfo: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs("/var/lib/kubelet", &disk); err != nil {
		return "", err
	}
	return fmt.Sprintf("memory=%dKi,ephemeral-storage=%d", kib, int64(disk.Blocks)*disk.Bsize), nil
}

// Kubelet and agent have the users of a cluster, which the admission policies of deploy/admission are about. The
// tests start the kubelet as an administrator.
const (
	asKubelet = "\n    as: system:node:" + nodeName + "\n    as-groups: [\"system:nodes\"]"
	asAgent   = "\n    as: system:serviceaccount:plimsoll-system:plimsoll-agent\n    as-groups: [\"system:serviceaccounts\"]"
)

// writeKubeconfigs writes the files for kubelet, agent and administrator.
func writeKubeconfigs(from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	token := strings.Index(string(text), "    token: ")
	if token < 0 {
		return fmt.Errorf("%s has no token of a user:\n%s", from, text)
	}
	end := token + strings.Index(string(text[token:]), "\n")
	return errors.Join(
		writeFile(adminUser, string(text), 0o600),
		writeFile(agentDir+"/kubeconfig", string(text[:end])+asAgent+string(text[end:]), 0o600),
		writeFile(kubeletUser, string(text[:end])+asKubelet+string(text[end:]), 0o600),
	)
}

// flagOf returns the value of a flag in its own argument.
func flagOf(args []string, name string) string {
	for i, a := range args[:max(0, len(args)-1)] {
		if a == name {
			return args[i+1]
		}
	}
	return ""
}

func setFlag(args []string, name, value string) {
	for i, a := range args[:max(0, len(args)-1)] {
		if a == name {
			args[i+1] = value
		}
	}
}

// awaitKubelet waits until the kubelet runs, so that the agent finds it at its start. At the first
// time it also installs what the chart does.
func awaitKubelet() error {
	if err := await(5*time.Minute, func() error { return healthy(kubeletHealth) }); err != nil {
		return err
	}
	done := work + "/installed"
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	kubectl := func(args ...string) error {
		return command(components+"/kubectl", append([]string{"--kubeconfig=" + adminUser}, args...)...)
	}
	for _, namespace := range []string{"plimsoll-system", "plimsoll-evictions"} {
		if err := kubectl("create", "namespace", namespace); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			return err
		}
	}
	for _, policy := range []string{"evicted-stays-evicted", "evicted-keeps-reason", "kubelet-keeps-conditions"} { // the last one has an effect with --pressure-conditions=own alone
		if err := kubectl("apply", "--server-side", "--validate=false", "--filename=/here/deploy/admission/"+policy+".yaml"); err != nil {
			return err
		}
	}
	return writeFile(done, "", 0o644)
}
