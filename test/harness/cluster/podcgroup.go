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
	err := p.eachFile("cgroup.procs", func(path, text string) error {
		for _, field := range strings.Fields(text) {
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

// PageCache returns the pod's memory in pages of files on disk, in bytes. It is that of its
// containers, whose statistics are up to date; those of a directory with children can be 2 s
// old. It is 0 if the cgroup does not exist. Returns the error of a failed read.
func (p *Pod) PageCache() (int64, error) {
	total := int64(0)
	err := p.eachFile("memory.stat", func(path, text string) error {
		if filepath.Dir(path) == p.memoryDir() {
			return nil
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name != "inactive_file" && name != "active_file" {
				continue
			}
			bytes, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return fmt.Errorf("read %s: %w", path, err)
			}
			total += bytes
		}
		return nil
	})
	return total, err
}

// eachFile calls f with every file of that name in the memory controller's directories of the pod.
func (p *Pod) eachFile(name string, f func(path, text string) error) error {
	return filepath.WalkDir(p.memoryDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != name {
			return ignoreGone(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return ignoreGone(err)
		}
		return f(path, string(text))
	})
}

// ForksForbidden reports whether the pod has a pids.max of 0, as it has during a kill without
// cgroup.kill. It is false if the cgroup does not exist. Returns the error of a failed read.
func (p *Pod) ForksForbidden() (bool, error) {
	parent := filepath.Join(cgroupRoot, "pids")
	if p.node.Sandbox.Version() == 2 {
		parent = cgroupRoot
	}
	text, err := os.ReadFile(filepath.Join(parent, p.Cgroup, "pids.max"))
	return string(text) == "0\n", ignoreGone(err)
}

// memoryDir returns the pod's directory in the hierarchy of the memory controller.
func (p *Pod) memoryDir() string {
	if p.node.Sandbox.Version() == 2 {
		return filepath.Join(cgroupRoot, p.Cgroup)
	}
	return filepath.Join(cgroupRoot, "memory", p.Cgroup)
}

// ignoreGone drops errors about concurrently removed cgroups.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
