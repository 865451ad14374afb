package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// TB is the part of testing.TB that fixtures use.
type TB interface {
	sandbox.TB
	Failed() bool
}

var prepare = sync.OnceFunc(func() {
	catchSignals()
	_ = Sweep() // leftovers do not affect the test
})

// Need checks the prerequisites of a cluster. If one is missing, the test fails with CI=true
// and is skipped otherwise, with the reason. Once per process Need removes the leftovers of
// dead test processes.
func Need(t sandbox.T) {
	t.Helper()
	if sandbox.Demand(t, "no cluster can be started", Missing()) {
		prepare()
	}
}

// Missing returns an error that describes the missing prerequisite of a cluster and its remedy,
// or nil if this process can start a cluster.
func Missing() error {
	if err := sandbox.Missing(); err != nil {
		return err
	}
	for _, name := range programs {
		if _, err := program(name); err != nil {
			return err
		}
	}
	return unhidden(os.TempDir())
}

// programs lists the binaries that `make components` builds.
var programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl",
	"containerd", "containerd-shim-runc-v2", "ctr", "runc",
}

// Binary returns the path of a program that `make components` builds, for tests that run it
// themselves: helm, kubectl, ctr. Returns an error with the build command if the program is
// missing.
func Binary(name string) (string, error) { return program(name) }

// program returns the path of a component's binary with links resolved: inside the node's mount
// namespace a link can lead to another place.
func program(name string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	set := cmp.Or(os.Getenv(componentsVariable), "components")
	path, err := filepath.EvalSymlinks(filepath.Join(root, "bin", set, name))
	if err != nil {
		return "", fmt.Errorf("find %s: %w: run make %s", name, err, set)
	}
	return path, unhidden(path)
}

// componentsVariable names the directory below bin with the components to use, such as
// components-1.36 for another release of Kubernetes.
const componentsVariable = "COMPONENTS"

// unhidden returns an error for paths that are private in the node's mount namespace.
func unhidden(path string) error {
	if wholeMachine() {
		return nil
	}
	for _, dir := range private {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("%s lies below %s, which the node's components do not see: set TMPDIR and PLIMSOLL_COMPONENTS to other places", path, dir)
		}
	}
	return nil
}

// moduleRoot returns the checkout of this test: `go test` starts in the directory of the
// package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find bin/components: no go.mod above the working directory: run inside the checkout")
		}
	}
}
