// Package chart_test checks the chart in deploy/helm. Every generated object is valid to the
// last field, and the program accepts every generated configuration. A misspelt value is
// refused. An installation on a real API server is removed completely. Generated files (rights,
// policies, names of options, the base in deploy/kustomize) are compared with their sources;
// -update writes them.
package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/test/harness/cluster"
	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

const (
	namespace = "plimsoll-system"
	release   = "plimsoll"
)

var (
	deploy = filepath.Join("..", "..", "..", "deploy")
	chart  = filepath.Join(deploy, "helm", "plimsoll")
)

// kubernetesVersions are the versions to test, oldest first: each existing minor version, and a
// future one.
var kubernetesVersions = []string{"1.34.0", "1.35.2", "1.36.3", "1.37.2", "1.38.0"}

// tool is a program of the components, with its fixed arguments and a directory for its files.
type tool struct {
	path string
	args []string
	home string
}

// needTool finds a program built by make components. Without it the test fails if CI=true, and
// is skipped otherwise.
func needTool(t *testing.T, name string) *tool {
	t.Helper()
	path, err := cluster.Binary(name)
	sandbox.Demand(t, "the chart is not tried", err)
	return &tool{path: path, home: t.TempDir()}
}

// run returns the program's standard output. Returns an error if the program fails.
func (p *tool) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.path, append(args, p.args...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "HELM_CACHE_HOME="+p.home, "HELM_CONFIG_HOME="+p.home, "HELM_DATA_HOME="+p.home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(p.path), strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

func (p *tool) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// template returns the chart's output for some values, each KEY=VALUE or a flag. Returns an
// error if helm refuses them.
func (p *tool) template(t *testing.T, values ...string) (string, error) {
	t.Helper()
	args := []string{"template", release, chart, "--namespace=" + namespace}
	return p.run(t.Context(), append(args, given(values)...)...)
}

// given converts KEY=VALUE to helm's flags; flags stay unchanged.
func given(values []string) (args []string) {
	version := "--kube-version=" + kubernetesVersions[len(kubernetesVersions)-1]
	for _, v := range values {
		switch {
		case strings.HasPrefix(v, "--kube-version="):
			version = v
		case strings.HasPrefix(v, "--"):
			args = append(args, v)
		default:
			args = append(args, "--set-json="+v)
		}
	}
	return append(args, version)
}

func TestChart_PassesLint(t *testing.T) {
	helm := needTool(t, "helm")
	for _, version := range kubernetesVersions {
		helm.must(t, "lint", "--strict", chart, "--kube-version="+version)
	}
}

func TestChart_AcceptsSupportedKubernetesVersions(t *testing.T) {
	helm := needTool(t, "helm")
	for version, fits := range map[string]bool{
		"1.33.9": false, "1.34.0": true, "1.35.2": true, "1.36.3": true, "1.36.0-gke.100": true, "1.37.2": true, "1.37.0-eks-abc": true, "1.38.0": true, "2.0.0": true,
	} {
		if _, err := helm.template(t, "--kube-version="+version); (err == nil) != fits {
			t.Errorf("Kubernetes %s: fits %v, want %v: %v", version, err == nil, fits, err)
		}
	}
	// By default, a current Helm assumes a later version than the tests.
	if _, err := helm.run(t.Context(), "template", release, chart); err != nil {
		t.Errorf("without --kube-version: %v", err)
	}
}

// refused returns an error unless err contains all of these words.
func refused(err error, words ...string) error {
	if err == nil {
		return errors.New("was accepted")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			return fmt.Errorf("error without %q: %w", w, err)
		}
	}
	return nil
}
