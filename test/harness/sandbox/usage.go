package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage returns the memory charged to the node in bytes, including page cache. Returns the
// error of a failed read.
func (n *Node) Usage() (int64, error) { return n.usage("") }

// Usage returns the memory charged to the pod in bytes, including page cache. Returns the error
// of a failed read.
func (p *Pod) Usage() (int64, error) { return p.node.usage(p.below) }

func (n *Node) usage(below string) (int64, error) {
	if n.layout.version == 2 {
		return readNumber(filepath.Join(n.dir(Unified, below), "memory.current"))
	}
	return readNumber(filepath.Join(n.dir("memory", below), "memory.usage_in_bytes"))
}

// WorkingSet returns the node's usage less its inactive page cache, in bytes: the quantity that
// eviction thresholds compare. Usage and statistics are two separate reads, so the result
// includes charges in between. Returns the error of a failed read.
func (n *Node) WorkingSet() (int64, error) {
	controller, key := "memory", "total_inactive_file"
	if n.layout.version == 2 {
		controller, key = Unified, "inactive_file"
	}
	used, err := n.Usage()
	if err != nil {
		return 0, err
	}
	inactive, err := readKey(filepath.Join(n.Dir(controller), "memory.stat"), key)
	if err != nil {
		return 0, err
	}
	return max(used-inactive, 0), nil
}

// PageCache returns the memory of a container in pages of files on disk, in bytes. The kernel
// reclaims it before an OOM kill. The statistics of a container's directory are up to date.
// Those of a directory with children can be up to 2 s old on current kernels. Returns the error
// of a failed read.
func (p *Pod) PageCache(container string) (int64, error) {
	controller := "memory"
	if p.node.layout.version == 2 {
		controller = Unified
	}
	return PageCache(filepath.Join(p.ContainerDir(controller, container), "memory.stat"))
}

// PageCache returns the memory in pages of files on disk by a file memory.stat, as [Pod.PageCache].
func PageCache(file string) (int64, error) {
	inactive, err := readKey(file, "inactive_file")
	if err != nil {
		return 0, err
	}
	active, err := readKey(file, "active_file")
	return inactive + active, err
}

// PIDs returns the processes of the pod, including containers, in the PID namespace of this
// process. Returns the error of a failed read.
func (p *Pod) PIDs() ([]int, error) {
	controller := "memory"
	if p.node.layout.version == 2 {
		controller = Unified
	}
	return processesBelow(p.Dir(controller))
}

// OOMKills returns the number of processes in the node that the kernel's OOM killer has ended
// since its creation. On v1 each cgroup has its own counter, so removed cgroups are not
// included. Returns the error of a failed read.
func (n *Node) OOMKills() (int64, error) {
	if n.layout.version == 2 {
		return readKey(filepath.Join(n.Dir(Unified), "memory.events"), "oom_kill")
	}
	var sum int64
	err := filepath.WalkDir(n.Dir("memory"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			var kills int64
			kills, err = readKey(filepath.Join(path, "memory.oom_control"), "oom_kill")
			sum += kills
		}
		if gone(err) && path != n.Dir("memory") {
			return nil
		}
		return err
	})
	return sum, err
}

func readNumber(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return v, nil
}

func readKey(file, key string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("read %s: no line %q", file, key)
}

// processesBelow lists the processes of a directory and its descendants. Directories that
// disappear during the walk have none.
func processesBelow(dir string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.IsDir() {
			return err
		}
		found, err := processesIn(path)
		pids = append(pids, found...)
		return err
	})
	return pids, err
}

func processesIn(dir string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("read %s/cgroup.procs: %w", dir, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
