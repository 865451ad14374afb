package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pods are the cgroups of bare pods.
type pods struct {
	root string // kubepods, with the files of the memory controller
}

// directory returns the directory of a pod, "" if there is none.
func (p *pods) directory(uid string) string {
	for _, class := range []string{"", "burstable", "besteffort"} {
		dir := filepath.Join(p.root, class, "pod"+uid)
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	return ""
}

// processes lists the processes of a pod, none if it has no cgroup. Returns the error of a read.
func (p *pods) processes(uid string) (pids []int, err error) {
	dir := p.directory(uid)
	if dir == "" {
		return nil, nil
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || !e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			pids = append(pids, pid)
		}
		return nil
	})
	return pids, err
}

// memory returns the charged bytes of a pod, and those without its inactive page cache, as a runtime reports
// them; 0 if they can not be read.
func (p *pods) memory(uid string) (usage, workingSet uint64) {
	dir := p.directory(uid)
	for file, cache := range map[string]string{"memory.current": "inactive_file", "memory.usage_in_bytes": "total_inactive_file"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		usage, _ = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // the kernel writes a number
		inactive := valueOf(filepath.Join(dir, "memory.stat"), cache)
		return usage, usage - min(inactive, usage)
	}
	return 0, 0
}

// valueOf returns the number behind a word at the beginning of a line, 0 without one.
func valueOf(file, word string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == word {
			n, _ := strconv.ParseUint(fields[1], 10, 64) // the kernel writes a number
			return n
		}
	}
	return 0
}

// Waits for the end of processes.
const (
	endPoll    = 2                // ms
	endTimeout = 20 * time.Second // after SIGKILL
)

// stop sends SIGTERM to the processes of a pod, and SIGKILL after a time. Returns an error if one remains.
func (p *pods) stop(uid string, within time.Duration) error {
	if within > 0 {
		if gone, err := p.end(uid, unix.SIGTERM, within); gone || err != nil {
			return err
		}
	}
	gone, err := p.end(uid, unix.SIGKILL, endTimeout)
	if err == nil && !gone {
		err = errors.New("processes remain after SIGKILL")
	}
	return err
}

// end sends a signal to the processes of a pod, once to each, and waits for their end.
func (p *pods) end(uid string, signal unix.Signal, within time.Duration) (gone bool, err error) {
	sent := map[int]bool{}
	for deadline := time.Now().Add(within); ; _, _ = unix.Poll(nil, endPoll) { // an end in a cgroup of v1 is no event
		pids, err := p.processes(uid)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		for _, pid := range pids {
			if pid <= 1 || sent[pid] {
				continue
			}
			sent[pid] = true
			if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, err
			}
		}
		if time.Now().After(deadline) {
			return false, nil
		}
	}
}
