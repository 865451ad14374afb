package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// private lists the directories in which containerd and the kubelet write at fixed places. In
// the node's mount namespace each is an empty file system.
var private = []string{"/run", "/var/lib", "/var/log", "/usr/libexec"}

// tunables lists the sysctls that a kubelet sets at every start. In the node's mount namespace
// each is a file with the machine's value.
var tunables = []string{
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// containerdSocket is the only path at which the kubelet's cAdvisor supports containerd.
const containerdSocket = "/run/containerd/containerd.sock"

// namespace is a mount namespace; with PID 0 that of this process. It exists while a process runs in it. Mounts made outside
// propagate into it; mounts made inside do not propagate out, and disappear with its last
// process.
type namespace struct{ pid int }

// enter wraps a command so that it runs in the namespace. The PID is the command's own:
// nsenter(1) calls execve.
func (n namespace) enter(cmd *exec.Cmd) *exec.Cmd {
	if n.pid == 0 {
		return cmd
	}
	inside := exec.Command("nsenter", append([]string{"--mount=/proc/" + strconv.Itoa(n.pid) + "/ns/mnt", "--", cmd.Path}, cmd.Args[1:]...)...)
	inside.Env, inside.SysProcAttr, inside.ExtraFiles = cmd.Env, cmd.SysProcAttr, cmd.ExtraFiles
	inside.Stdin, inside.Stdout, inside.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	return inside
}

// newNamespace starts the process that pins the namespace. It mounts the private directories,
// reports "ready" and exits with this process. A whole machine needs none: everything in it is
// the cluster's.
func (s *system) newNamespace(ctx context.Context, socket string) (namespace, error) {
	if wholeMachine() {
		return namespace{}, errors.Join(os.MkdirAll(filepath.Dir(containerdSocket), 0o711), os.Symlink(socket, containerdSocket))
	}
	// Shared propagation, as on a host with systemd. Otherwise pods would not receive mounts
	// made during their run time (mountPropagation: HostToContainer).
	script := "set -e\nmount -n --make-rshared /\n"
	for _, dir := range private {
		script += "mount -n -t tmpfs -o mode=755 plimsoll " + dir + "\n"
	}
	for _, name := range tunables {
		file := filepath.Join(s.dir, "sysctl", name)
		if err := copyFile(filepath.Join("/proc/sys", name), file); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue // absent in this kernel
			}
			return namespace{}, err
		}
		script += "mount -n --bind " + file + " /proc/sys/" + name + "\n"
	}
	script += "mkdir /run/containerd\nln -s " + socket + " " + containerdSocket + "\n"
	return s.startHolder(ctx, script+"echo ready\nexec cat\n")
}

func (s *system) startHolder(ctx context.Context, script string) (namespace, error) {
	cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", script)
	reader, out, err := os.Pipe()
	if err != nil {
		return namespace{}, err
	}
	defer reader.Close()
	in, lifeline, err := os.Pipe() // closed when this process exits
	if err != nil {
		_ = out.Close()
		return namespace{}, err
	}
	s.lifeline = lifeline
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	holder, err := s.start(cmd)
	_, _ = in.Close(), out.Close() // owned by the child process
	if err != nil {
		return namespace{}, err
	}
	line, err := bufio.NewReader(reader).ReadString('\n')
	if strings.TrimSpace(line) != "ready" {
		return namespace{}, fmt.Errorf("make the node's mount namespace: %q: %w", line, errors.Join(err, ctx.Err()))
	}
	return namespace{holder.PID}, nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
