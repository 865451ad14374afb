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

// private are the directories under which containerd and the kubelet write at
// fixed places: in the node's mount namespace each is an empty file system.
var private = []string{"/run", "/var/lib", "/var/log", "/usr/libexec"}

// tunables are the sysctls that a kubelet sets at every start: in the node's
// mount namespace each is a file with the machine's value.
var tunables = []string{
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// A namespace is a mount namespace that lasts as long as a process in it.
// Mounts made outside appear in it; those made inside stay there, and vanish
// with its last process.
type namespace struct{ pid int }

// enter has a command run in the namespace. Its process is the command's own:
// nsenter(1) becomes it.
func (n namespace) enter(cmd *exec.Cmd) *exec.Cmd {
	inside := exec.Command("nsenter", append([]string{"--mount=/proc/" + strconv.Itoa(n.pid) + "/ns/mnt", "--", cmd.Path}, cmd.Args[1:]...)...)
	inside.Env, inside.SysProcAttr, inside.ExtraFiles = cmd.Env, cmd.SysProcAttr, cmd.ExtraFiles
	inside.Stdin, inside.Stdout, inside.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	return inside
}

// newNamespace starts the process that holds the namespace: it mounts what is
// private, says so, and waits for the end of this process.
func (s *system) newNamespace(ctx context.Context) (namespace, error) {
	// Shared as on a host of systemd's, or pods could not see what is mounted
	// while they run (mountPropagation: HostToContainer).
	script := "set -e\nmount -n --make-rshared /\n"
	for _, dir := range private {
		script += "mount -n -t tmpfs -o mode=755 plimsoll " + dir + "\n"
	}
	for _, name := range tunables {
		file := filepath.Join(s.dir, "sysctl", name)
		if err := copyFile(filepath.Join("/proc/sys", name), file); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				continue // this kernel has none
			}
			return namespace{}, err
		}
		script += "mount -n --bind " + file + " /proc/sys/" + name + "\n"
	}
	// The kubelet's cAdvisor knows containerd by this place only.
	script += "mkdir /run/containerd\nln -s " + filepath.Join(s.dir, "c.sock") + " /run/containerd/containerd.sock\n"
	return s.hold(ctx, script+"echo ready\nexec cat\n")
}

func (s *system) hold(ctx context.Context, script string) (namespace, error) {
	cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", script)
	said, out, err := os.Pipe()
	if err != nil {
		return namespace{}, err
	}
	defer said.Close()
	in, lifeline, err := os.Pipe() // it ends when this process does
	if err != nil {
		_ = out.Close()
		return namespace{}, err
	}
	s.lifeline = lifeline
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	holder, err := s.start(cmd)
	_, _ = in.Close(), out.Close() // they are the holder's
	if err != nil {
		return namespace{}, err
	}
	line, err := bufio.NewReader(said).ReadString('\n')
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
