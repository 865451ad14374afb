package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// makeCgroup creates the pod's directory with its memory limit: the sum of the containers'
// limits, if every container has one.
func (p *Pod) makeCgroup() error {
	memory := p.memoryDir()
	if err := os.MkdirAll(memory, 0o755); err != nil {
		return err
	}
	limit := int64(0)
	for _, c := range p.Object.Spec.Containers {
		own := c.Resources.Limits.Memory().Value()
		if own == 0 {
			return nil
		}
		limit += own
	}
	file := "memory.limit_in_bytes"
	if p.node.Sandbox.Version() == 2 {
		file = "memory.max"
	}
	if err := os.WriteFile(filepath.Join(memory, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		return fmt.Errorf("limit the pod's memory: %w", err)
	}
	return nil
}

// removeCgroup removes the pod's directories from every hierarchy.
func (p *Pod) removeCgroup() error {
	parents, err := otherHierarchies()
	errs := []error{err}
	for _, controller := range ofSandbox {
		parents = append(parents, filepath.Join(cgroupRoot, controller))
	}
	if p.node.Sandbox.Version() == 2 {
		parents = []string{cgroupRoot}
	}
	for _, parent := range parents {
		errs = append(errs, removeTree(filepath.Join(parent, p.Cgroup)))
	}
	return errors.Join(errs...)
}

// PIDs returns the processes of the pod, including those of its sandbox, in the PID namespace
// of this process. The list is empty if the cgroup does not exist. Returns the error of a
// failed read.
func (p *Pod) PIDs() ([]int, error) {
	var pids []int
	err := p.eachFile("cgroup.procs", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids, err
}

// PageCache returns the memory of the pod's containers in pages of files on disk, in bytes, as
// [sandbox.Pod.PageCache]. It is 0 if the cgroup does not exist. Returns the error of a failed
// read.
func (p *Pod) PageCache() (total int64, err error) {
	err = p.eachFile("memory.stat", func(path string) error {
		if filepath.Dir(path) == p.memoryDir() {
			return nil
		}
		cache, err := sandbox.PageCache(path)
		total += cache
		return err
	})
	return total, err
}

// eachFile calls f with the path of every file of that name in the pod's directories of the
// memory controller. An error of f about a removed cgroup is dropped.
func (p *Pod) eachFile(name string, f func(path string) error) error {
	return filepath.WalkDir(p.memoryDir(), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == name {
			err = f(path)
		}
		return ignoreGone(err)
	})
}

// ForksForbidden reports whether the pod has a pids.max of 0, as it has during a kill without
// cgroup.kill. It is false if the cgroup does not exist. Returns the error of a failed read.
func (p *Pod) ForksForbidden() (bool, error) {
	text, err := os.ReadFile(filepath.Join(p.dir("pids"), "pids.max"))
	return string(text) == "0\n", ignoreGone(err)
}

// memoryDir returns the pod's directory in the hierarchy of the memory controller.
func (p *Pod) memoryDir() string { return p.dir("memory") }

// dir returns the pod's directory in the hierarchy of a controller.
func (p *Pod) dir(controller string) string {
	if p.node.Sandbox.Version() == 2 {
		return filepath.Join(cgroupRoot, p.Cgroup)
	}
	return filepath.Join(cgroupRoot, controller, p.Cgroup)
}

// ignoreGone drops errors about concurrently removed cgroups.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
