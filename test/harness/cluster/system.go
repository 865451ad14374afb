package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// system is the environment of the components: a cgroup beside the node's. Their memory is not
// part of the node's, and the cgroup finds every process they leave.
type system struct {
	node *sandbox.Node
	pod  *sandbox.Pod
	dir  string
	// lifeline is a pipe; the namespace process exits when it closes.
	lifeline *os.File
}

// systemName and nodeName are the prefixes of the cgroups; sandbox appends the owner.
const (
	systemName = "cluster"
	nodeName   = "node"
)

func newSystem() (*system, error) {
	node, err := sandbox.NewNode(systemName, sandbox.MaxLimit)
	if err != nil {
		return nil, err
	}
	s := &system{node: node, dir: filepath.Join(os.TempDir(), filepath.Base(node.Path()))}
	if s.pod, err = node.AddPod("components", sandbox.Guaranteed, "all"); err == nil {
		err = os.Mkdir(s.dir, 0o711) // containers run as other users and traverse it
	}
	if err != nil {
		_ = s.close()
		return nil, fmt.Errorf("make a place for the cluster: %w", err)
	}
	return s, nil
}

// start starts a program that receives SIGKILL when this process exits.
func (s *system) start(cmd *exec.Cmd) (*sandbox.Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Dir = s.dir
	return s.node.Start(s.pod, "all", cmd)
}

// close ends every process that was started here, and its descendants.
func (s *system) close() error {
	if err := s.node.Close(); err != nil {
		return err // the files are still in use
	}
	if s.lifeline != nil {
		_ = s.lifeline.Close()
	}
	return clear(s.dir)
}

// clear unmounts everything below a directory of a cluster and removes the directory.
func clear(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := syscall.Unmount(m, 0); err != nil && !errors.Is(err, syscall.EINVAL) { // unmounted concurrently
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists the mount points at or below a directory, the last first.
func mountsBelow(dir string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var mounts []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // proc_pid_mountinfo(5): the fifth is the mount point
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			mounts = append([]string{fields[4]}, mounts...)
		}
	}
	return mounts, nil
}

// Sweep removes the leftovers of clusters with a dead owner: processes, cgroups, mounts and
// files. Clusters of live owners are not affected. Returns the first error of a step.
func Sweep() error {
	for _, name := range []string{systemName, nodeName} { // components first: a kubelet would restart its pods
		if err := sandbox.Sweep(name); err != nil {
			return err
		}
	}
	if err := sweepHierarchies(); err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "plimsoll-"+systemName+".*-*-*.*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		// A cluster creates its cgroup before its directory and removes it after.
		if alive(filepath.Base(dir)) {
			continue
		}
		if err := clear(dir); err != nil {
			return err
		}
	}
	return nil
}

// alive reports whether a sandbox of that name has a cgroup. [sandbox.Sweep] has removed those
// of dead owners.
func alive(name string) bool {
	for _, parent := range []string{"memory", ""} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, parent, name)); err == nil {
			return true
		}
	}
	return false
}
