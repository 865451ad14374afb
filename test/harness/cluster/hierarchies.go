package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

const cgroupRoot = "/sys/fs/cgroup"

// ofSandbox lists the hierarchies of cgroup v1 that package sandbox manages.
var ofSandbox = []string{"memory", "pids", "freezer", sandbox.Unified}

// otherHierarchies lists the further hierarchies of cgroup v1 that a kubelet and runc need. On
// v2 the list is empty.
func otherHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.procs")); err == nil {
		return nil, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(cgroupRoot, e.Name())
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && e.IsDir() && !slices.Contains(ofSandbox, e.Name()) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// addHierarchies creates the node in the hierarchies without the sandbox: the kubelet rejects a
// root unless it exists in every hierarchy.
func addHierarchies(name string) error {
	parents, err := otherHierarchies()
	if err != nil {
		return err
	}
	for _, parent := range parents {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// A new cpuset is empty, and no process can run in an empty cpuset.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), text, 0)
			}
			if err != nil {
				return fmt.Errorf("copy %s to %s: %w", file, dir, err)
			}
		}
	}
	return nil
}

// removeHierarchies reverts addHierarchies after the sandbox has ended every process.
func removeHierarchies(name string) error {
	parents, err := otherHierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, parent := range parents {
		errs = append(errs, removeTree(filepath.Join(parent, name)))
	}
	return errors.Join(errs...)
}

// sweepHierarchies removes nodes without a sandbox.
func sweepHierarchies() error {
	parents, err := otherHierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, parent := range parents {
		entries, err := os.ReadDir(parent)
		errs = append(errs, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "plimsoll-"+nodeName+".") && !alive(e.Name()) {
				errs = append(errs, removeTree(filepath.Join(parent, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// removeTree removes cgroups, the deepest first. Missing cgroups are no error.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if err := os.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", d, err)
		}
	}
	return err
}
