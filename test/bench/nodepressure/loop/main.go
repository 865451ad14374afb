// Loop is the contestant of an afternoon's work: every 100 ms it reads how much memory of a cgroup is free,
// and below a threshold it sends SIGKILL to all processes of the pod with the largest process. It knows no
// rates, requests or priorities.
//
//	loop -node DIRECTORY -pods DIRECTORY -total BYTES -threshold BYTES
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const period = 100 * time.Millisecond

type loop struct {
	node, pods       string
	total, threshold int64
}

func main() {
	var l loop
	flag.StringVar(&l.node, "node", "", "directory of the node's cgroup; empty: the machine's MemAvailable")
	flag.StringVar(&l.pods, "pods", "", "directory above the pods' cgroups")
	flag.Int64Var(&l.total, "total", 0, "memory of the node in bytes")
	flag.Int64Var(&l.threshold, "threshold", 0, "bytes that shall stay free")
	flag.Parse()
	fmt.Println("watching")
	for range time.Tick(period) {
		if err := l.check(); err != nil {
			fmt.Fprintln(os.Stderr, "loop:", err)
			os.Exit(1)
		}
	}
}

func (l *loop) check() error {
	free, err := l.free()
	if err != nil || free >= l.threshold {
		return err
	}
	pod, pids, err := l.largest()
	if err != nil || pod == "" {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d of %s: %w", pid, pod, err)
		}
	}
	fmt.Printf("killed %d processes of %s at %d free bytes\n", len(pids), pod, free)
	return nil
}

// free returns the bytes that are free: on the machine, or in the cgroup without its inactive page cache.
func (l *loop) free() (int64, error) {
	if l.node == "" {
		kib, err := value("/proc/meminfo", "MemAvailable:")
		return kib << 10, err
	}
	usage, cache := "memory.current", "inactive_file"
	if _, err := os.Stat(filepath.Join(l.node, usage)); err != nil {
		usage, cache = "memory.usage_in_bytes", "total_inactive_file"
	}
	text, err := os.ReadFile(filepath.Join(l.node, usage))
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, err
	}
	inactive, err := value(filepath.Join(l.node, "memory.stat"), cache)
	return l.total - used + inactive, err
}

func value(file, key string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line %s", file, key)
}

// largest returns the pod with the largest process, and its processes. A process is in the directory of a
// container, one below that of its pod.
func (l *loop) largest() (pod string, pids []int, err error) {
	most := int64(0)
	members := map[string][]int{}
	err = filepath.WalkDir(l.pods, func(dir string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || !e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			parent := filepath.Dir(dir)
			members[parent] = append(members[parent], pid)
			if size := resident(pid); size > most {
				most, pod = size, parent
			}
		}
		return nil
	})
	return pod, members[pod], err
}

// resident returns the memory of a process in pages, 0 for one that has ended.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes a number
	return n
}
