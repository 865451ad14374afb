package cgroup

import (
	"fmt"
	"path/filepath"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
)

// A Version of the kernel's cgroup interface.
type Version uint8

// The versions. A hybrid machine, where a version 2 tree without controllers is
// mounted beside the others, accounts memory in version 1 and counts as that.
const (
	V1 Version = 1 // one tree per controller
	V2 Version = 2 // one tree for all controllers
)

func (v Version) String() string { return fmt.Sprintf("v%d", uint8(v)) }

// A Hierarchy is where the cgroup trees are mounted: on version 1 Root holds
// one mount per controller, on version 2 Root is the mount.
type Hierarchy struct {
	Version Version
	Root    string
}

// mountedAt is where every distribution mounts cgroups.
const mountedAt = "/sys/fs/cgroup"

// At is a hierarchy of a known version at root, without a look at what is
// there: for trees of plain files.
func At(v Version, root string) Hierarchy { return Hierarchy{v, root} }

// Detect finds out which version accounts memory below root: /sys/fs/cgroup,
// or /host/sys/fs/cgroup where a container sees the host's. Trees of plain
// files are not detected, see [At].
func Detect(root string) (Hierarchy, error) {
	root = filepath.Clean(root)
	magic, err := filesystem(root)
	switch {
	case err != nil:
		return Hierarchy{}, fmt.Errorf("detect the cgroup version: %w: mount the cgroup filesystem there, or name where it is mounted", err)
	case magic == unix.CGROUP2_SUPER_MAGIC:
		return At(V2, root), nil
	}
	h := At(V1, root)
	memory := h.Dir("memory", "/")
	magic, err = filesystem(memory)
	switch {
	case err != nil:
		return Hierarchy{}, fmt.Errorf("detect the cgroup version: %s is no cgroup v2, and as v1 it has no memory controller: %w: mount it (mount -t cgroup -o memory cgroup %s), or name where cgroups are mounted", root, err, memory)
	case magic != unix.CGROUP_SUPER_MAGIC:
		return Hierarchy{}, fmt.Errorf("detect the cgroup version: %s is neither the mount of cgroup v2 nor that of the v1 memory controller: name where cgroups are mounted", memory)
	}
	return h, nil
}

// filesystem is the magic number of the filesystem at path. For the usual place
// containerd's library answers the question of version 2, once per process.
func filesystem(path string) (int64, error) {
	if path == mountedAt && cgroups.Mode() == cgroups.Unified {
		return unix.CGROUP2_SUPER_MAGIC, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", path, err)
	}
	return int64(st.Type), nil
}

// Dir is the directory of a cgroup in the tree of a controller ("memory",
// "pids", "freezer"). The path is relative to the controller's mount; dots in
// it can not lead out of the mount.
func (h Hierarchy) Dir(controller, path string) string {
	if h.Version == V2 {
		controller = ""
	}
	return filepath.Join(h.Root, controller, clean(path))
}

// clean makes a cgroup path absolute within its mount.
func clean(path string) string { return filepath.Join("/", path) }
