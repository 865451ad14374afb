package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// sliceName matches the slices of a node: a dash would make a slice the child of another one.
var sliceName = regexp.MustCompile(`^[a-z][a-z0-9]*\.slice$`)

// unitDirectory holds the units of systemd that a reboot removes.
const unitDirectory = "/run/systemd/system"

// NewSlice creates a node that is a slice of systemd, as a kubelet with the systemd cgroup
// driver requires. systemd creates its children. A limit of 0 bytes or tasks is no limit: the
// slice kubepods.slice gets its own from the kubelet. The caller closes the node. Returns an
// error if the machine has cgroup v1, the name is invalid, or systemd does not start the slice.
func NewSlice(name string, memory, tasks int64) (*Node, error) {
	l, err := detect()
	if err != nil {
		return nil, err
	}
	if l.version != 2 || !sliceName.MatchString(name) {
		return nil, fmt.Errorf("sandbox slice %q on cgroup v%d: use cgroup v2, lower-case letters and digits", name, l.version)
	}
	n := &Node{name: name, limit: memory, layout: l, slice: true}
	open.Store(n, struct{}{})
	if err := n.startSlice(memory, tasks); err != nil {
		return nil, errors.Join(fmt.Errorf("make sandbox slice %s: %w", name, err), n.Close())
	}
	return n, nil
}

func (n *Node) startSlice(memory, tasks int64) error {
	// A kubelet requires every controller in its root; systemd enables those with a setting.
	text := "[Unit]\nDescription=a node for tests\n[Slice]\nMemoryAccounting=yes\nTasksAccounting=yes\nCPUWeight=100\nIOWeight=100\n" +
		fmt.Sprintf("AllowedCPUs=0-%d\n", runtime.NumCPU()-1)
	if memory > 0 {
		text += fmt.Sprintf("MemoryMax=%d\nMemorySwapMax=0\n", memory)
	}
	if tasks > 0 {
		text += fmt.Sprintf("TasksMax=%d\n", tasks)
	}
	if err := os.WriteFile(filepath.Join(unitDirectory, n.name), []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(systemctl("daemon-reload"), systemctl("start", n.name),
		os.WriteFile(filepath.Join(mountRoot, "cgroup.subtree_control"), []byte("+hugetlb"), 0)) // systemd does not manage it
}

// removeSlice makes systemd forget the slice after the end of its processes.
func (n *Node) removeSlice() error {
	unit := filepath.Join(unitDirectory, n.name)
	if _, err := os.Stat(unit); !n.slice || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(systemctl("stop", n.name), os.Remove(unit), systemctl("daemon-reload"))
}

func systemctl(args ...string) error {
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
