package arena

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// root is the mount point of the cgroup file systems.
const root = "/sys/fs/cgroup"

// Layout is the cgroup version of the machine and where its hierarchies are.
type Layout struct {
	Version int
	mounts  []mount
}

type mount struct{ controller, dir string }

// Controllers with a directory for each pod. On v1 the memory controller is required; unified is the
// empty v2 hierarchy beside v1.
var (
	podControllers   = []string{"memory", "pids", "freezer", "unified"}
	groupControllers = []string{"pids", "cpuacct", "unified"}
)

// Detect returns the layout of this machine. Returns an error with the remedy if no node can be made.
func Detect() (Layout, error) {
	if uid := os.Geteuid(); uid != 0 {
		return Layout{}, fmt.Errorf("running as user %d: run as root, because nodes are cgroups below %s", uid, root)
	}
	l := Layout{Version: 1}
	if text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		l.Version = 2
		l.mounts = []mount{{"", root}}
		if have := strings.Fields(string(text)); !slices.Contains(have, "memory") || !slices.Contains(have, "pids") {
			return l, fmt.Errorf("cgroup v2 at %s has the controllers %v: boot with memory and pids", root, have)
		}
	}
	for _, c := range append(slices.Clone(podControllers), groupControllers...) {
		dir := filepath.Join(root, c)
		known := slices.ContainsFunc(l.mounts, func(m mount) bool { return m.controller == c })
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && l.Version == 1 && !known {
			l.mounts = append(l.mounts, mount{c, dir})
		}
	}
	memory := l.dir("memory")
	if memory == "" {
		return l, fmt.Errorf("no memory controller: mount cgroup2 at %s, or the v1 controller at %s/memory", root, root)
	}
	if err := unix.Access(memory, unix.W_OK); err != nil {
		return l, fmt.Errorf("write to %s: %w: run where cgroups are writable, such as in a privileged container", memory, err)
	}
	return l, nil
}

// dir returns the mount point of a controller, or "".
func (l Layout) dir(controller string) string {
	for _, m := range l.mounts {
		if l.Version == 2 || m.controller == controller {
			return m.dir
		}
	}
	return ""
}

// dirs returns a directory in the hierarchies of the controllers.
func (l Layout) dirs(controllers []string, below string) (all []string) {
	for _, m := range l.mounts {
		if l.Version == 2 || slices.Contains(controllers, m.controller) {
			all = append(all, filepath.Join(m.dir, below))
		}
	}
	return all
}

// write writes a file of the kernel.
func write(dir, file, value string) error {
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}

// limitMemory sets the limit of a directory, swap included.
func (l Layout) limitMemory(dir string, bytes int64) error {
	value := fmt.Sprint(bytes)
	if l.Version == 2 {
		swap := write(dir, "memory.swap.max", "0")
		if errors.Is(swap, os.ErrNotExist) { // a kernel without swap
			swap = nil
		}
		return errors.Join(write(dir, "memory.max", value), swap)
	}
	if err := write(dir, "memory.limit_in_bytes", value); err != nil {
		return err
	}
	if swaps() {
		return write(dir, "memory.memsw.limit_in_bytes", value)
	}
	return nil // a limit with swap would hide that the other one is reached
}

// swaps reports whether the machine has swap.
func swaps() bool {
	text, err := os.ReadFile("/proc/swaps")
	return err == nil && strings.Count(string(text), "\n") > 1
}
