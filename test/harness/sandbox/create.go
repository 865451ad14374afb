package sandbox

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// create creates a directory below the node in every hierarchy, with a memory limit in bytes
// (swap included) and a task limit; 0: no limit. Existing settings do not change.
func (n *Node) create(below string, memory, pids int64) error {
	path := filepath.Join("/", n.name, below)
	if n.layout.version == 2 {
		return createV2(path, memory, pids)
	}
	if err := createV1(path, memory, pids); err != nil {
		return err
	}
	if dir := n.dir(Unified, below); dir != "" {
		return os.MkdirAll(dir, 0o755)
	}
	return nil
}

// createV1 passes the three hierarchies explicitly. The library's default is every mounted
// controller, and a sandbox in cpuset or devices would need configuration there before a
// process can run.
func createV1(path string, memory, pids int64) error {
	three := func() ([]cgroup1.Subsystem, error) {
		return []cgroup1.Subsystem{
			cgroup1.NewMemory(mountRoot), cgroup1.NewPids(mountRoot), cgroup1.NewFreezer(mountRoot),
		}, nil
	}
	resources := &specs.LinuxResources{}
	if memory > 0 {
		resources.Memory = &specs.LinuxMemory{Limit: &memory}
		// Without swap, a limit with swap would only hide events at the memory limit: usage
		// that hits it is not counted (failcnt).
		if _, err := os.Stat(filepath.Join(mountRoot, "memory", "memory.memsw.limit_in_bytes")); err == nil && swaps() {
			resources.Memory.Swap = &memory
		}
	}
	if pids > 0 {
		resources.Pids = &specs.LinuxPids{Limit: &pids}
	}
	_, err := cgroup1.New(cgroup1.StaticPath(path), resources, cgroup1.WithHierarchy(three))
	return err
}

// createV2 also enables both controllers in the ancestors.
func createV2(path string, memory, pids int64) error {
	resources := &cgroup2.Resources{Memory: &cgroup2.Memory{}, Pids: &cgroup2.Pids{Max: pids}}
	if memory > 0 {
		none := int64(0)
		resources.Memory.Max, resources.Memory.Swap = &memory, &none
		if _, err := os.Stat("/proc/swaps"); err != nil { // no memory.swap.max without CONFIG_SWAP
			resources.Memory.Swap = nil
		}
	}
	_, err := cgroup2.NewManager(mountRoot, path, resources)
	return err
}

// swaps reports whether the machine has swap. An unknown state counts as swap.
func swaps() bool {
	list, err := os.ReadFile("/proc/swaps") // a heading, then one line per device
	return err != nil || bytes.Count(list, []byte("\n")) > 1
}
