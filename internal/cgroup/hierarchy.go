package cgroup

import (
	"fmt"
	"path/filepath"

	"github.com/containerd/cgroups/v3"
	"golang.org/x/sys/unix"
)

// Version is a version of the kernel's cgroup interface.
type Version uint8

// The versions. A hybrid machine, with a version 2 tree without controllers beside the others,
// accounts memory in version 1 and counts as such.
const (
	V1 Version = 1 // one tree per controller
	V2 Version = 2 // one tree for all controllers
)

func (v Version) String() string { return fmt.Sprintf("v%d", uint8(v)) }

// Hierarchy is the location of the cgroup trees. On version 1 Root contains one mount per
// controller; on version 2 Root is the mount.
type Hierarchy struct {
	Version Version
	Root    string
}

// mountedAt is the mountpoint of cgroups on every distribution.
const mountedAt = "/sys/fs/cgroup"

// At returns a hierarchy of a known version at root without checking root, for trees of plain
// files.
func At(v Version, root string) Hierarchy { return Hierarchy{v, root} }

// Detect detects which version accounts memory below root: /sys/fs/cgroup, or
// /host/sys/fs/cgroup for the host's in a container. It does not detect trees of plain files,
// see [At]. Returns an error if root is neither a version 2 mount nor contains the version 1
// memory controller.
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

// filesystem returns the magic number of the filesystem at path. For the default path
// containerd's library detects version 2, once per process.
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

// Dir returns the directory of a cgroup in the tree of a controller ("memory", "pids",
// "freezer"). The path is relative to the controller's mount; dots in it can not lead out of
// the mount.
func (h Hierarchy) Dir(controller, path string) string {
	if h.Version == V2 {
		controller = ""
	}
	return filepath.Join(h.Root, controller, clean(path))
}

// LacksKill reports whether the kernel cannot end all processes of a cgroup at once: version 1, and
// version 2 before Linux 5.14. A cgroup below the root shows it, since the root itself never has
// cgroup.kill.
func (h Hierarchy) LacksKill() bool {
	if h.Version == V1 {
		return true
	}
	below, _ := filepath.Glob(filepath.Join(h.Root, "*", "cgroup.procs")) // the pattern is valid
	with, _ := filepath.Glob(filepath.Join(h.Root, "*", "cgroup.kill"))
	return len(below) > 0 && len(with) == 0
}

// clean returns a cgroup path as an absolute path within its mount.
func clean(path string) string { return filepath.Join("/", path) }
