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

// A system is where the components run: a cgroup beside the node's, so that
// their memory is not the node's, and whatever they leave is found by it.
type system struct {
	node *sandbox.Node
	pod  *sandbox.Pod
	dir  string
	// lifeline is a pipe whose end is the end of the namespace.
	lifeline *os.File
}

// systemName and nodeName are how the cgroups begin: sandbox adds who made them.
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
		err = os.Mkdir(s.dir, 0o711) // a container's user passes through
	}
	if err != nil {
		_ = s.close()
		return nil, fmt.Errorf("make a place for the cluster: %w", err)
	}
	return s, nil
}

// start runs a program that dies with this process.
func (s *system) start(cmd *exec.Cmd) (*sandbox.Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Dir = s.dir
	return s.node.Start(s.pod, "all", cmd)
}

// close ends everything that was started here, and what it started.
func (s *system) close() error {
	if err := s.node.Close(); err != nil {
		return err // the files are still in use
	}
	if s.lifeline != nil {
		_ = s.lifeline.Close()
	}
	return clear(s.dir)
}

// clear unmounts what is mounted below a directory of a cluster and removes it.
func clear(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := syscall.Unmount(m, 0); err != nil && !errors.Is(err, syscall.EINVAL) { // somebody else did
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists what is mounted at or below a directory, the last first.
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

// Sweep removes what clusters left whose maker was killed: processes, cgroups,
// mounts and files. Those of living makers stay.
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
		// A cluster makes its cgroup before its directory and removes it after.
		if alive(filepath.Base(dir)) {
			continue
		}
		if err := clear(dir); err != nil {
			return err
		}
	}
	return nil
}

// alive reports whether a sandbox of that name still has its cgroup, which
// [sandbox.Sweep] leaves to living makers only.
func alive(name string) bool {
	for _, parent := range []string{"memory", ""} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, parent, name)); err == nil {
			return true
		}
	}
	return false
}
