package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// needed are the files of the machine, beside those of components.
var needed = []string{
	"bin/plimsoll", "bin/nodee2e/nodee2e", "bin/nodee2e/e2e_node.test", "bin/nodee2e/agnhost", "bin/nodee2e/busybox", "bin/nodee2e/pause",
	"bin/components/containerd", "bin/components/containerd-shim-runc-v2", "bin/components/ctr", "bin/components/runc", "bin/components/kubelet", "bin/components/kubectl",
	"deploy/plimsoll-agent.service", "deploy/admission/evicted-stays-evicted.yaml", "deploy/admission/evicted-keeps-reason.yaml",
	"deploy/admission/kubelet-keeps-conditions.yaml",
}

// Output of the suite, relative to the module.
const (
	resultsFile = "bin/nodee2e/results.jsonl" // a line for each result
	logsDir     = "bin/nodee2e/logs"          // a directory for each spec and mode
)

// limit bounds the time of one machine. The tests have less, so that their report is written.
const (
	limit      = 4 * time.Hour
	testsLimit = limit - 30*time.Minute
)

// runSuite runs each spec in a machine of its own, and adds its result to the results. It stops at a
// machine without a result, and at a signal: neither writes a line.
func runSuite(o *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var errs []error
	for _, s := range o.specs {
		r, err := o.runInMachine(ctx, s)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("%s: %w", s.name, err))...)
		}
		fmt.Printf("%-70s %-9s %-8s %5.0f s  %s\n", r.Spec, r.Mode, r.State, r.Seconds, r.Where)
		if err := appendResult(r); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if r.State != "passed" {
			errs = append(errs, fmt.Errorf("%s with %s: %s: %s", s.name, r.Mode, r.State, r.Message))
		}
	}
	return errors.Join(errs...)
}

// runInMachine runs a spec. Returns an error if the machine has no result of it.
func (o *options) runInMachine(ctx context.Context, s spec) (result, error) {
	label := o.mode
	for _, f := range o.agent {
		label += strings.NewReplacer("=", "-", "/", "-").Replace(strings.TrimLeft(f, "-"))
	}
	logs := filepath.Join(logsDir, s.name+"."+label)
	if err := errors.Join(os.RemoveAll(logs), os.MkdirAll(logs, 0o755)); err != nil {
		return result{}, err
	}
	output := filepath.Join(logs, "output.disk")
	args := []string{"run", "-systemd", "-m", "6144", "-limit", limit.String(), "-output", output}
	for _, name := range needed {
		args = append(args, "-put", name)
	}
	args = append(args, "--", "bin/nodee2e/nodee2e", "node", "-mode", o.mode)
	for _, f := range o.agent {
		args = append(args, "-agent", f)
	}
	cmd := exec.CommandContext(ctx, "bin/vm", append(args, s.name)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes its files
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	err = errors.Join(err, unpack(output, logs), os.Remove(output))
	r, readErr := readResult(filepath.Join(logs, "report.json"))
	r.Spec, r.Mode, r.Agent, r.Time = s.name, o.mode, o.agent, time.Now().UTC().Truncate(time.Second)
	return r, errors.Join(err, readErr)
}

// unpack writes the reports of a machine to a directory.
func unpack(disk, dir string) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the machine's reports: %w", err)
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("the machine's report %q is not below its directory", header.Name)
		}
		out, err := os.Create(filepath.Join(dir, header.Name))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}

func appendResult(r result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(resultsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}
