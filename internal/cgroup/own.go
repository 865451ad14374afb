package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// OwnMemoryLimit returns the smallest memory limit, in bytes, of this process's cgroup and its
// ancestors, as far as they are mounted here. limited is false if there is none. proc is the
// mountpoint of /proc. Returns an error if the cgroup can not be found or a limit can not be
// read.
func OwnMemoryLimit(proc string) (limit uint64, limited bool, err error) {
	path, version, mounts, err := ownMemory(proc)
	if err != nil {
		return 0, false, fmt.Errorf("find the own memory limit: %w", err)
	}
	for _, m := range mounts {
		below, is := m.below(path)
		if !is {
			continue
		}
		l, is, err := lowestLimit(m.point, below, version)
		if err != nil {
			return 0, false, fmt.Errorf("find the own memory limit: %w", err)
		}
		if is && (!limited || l < limit) {
			limit, limited = l, true
		}
	}
	return limit, limited, nil
}

// OwnMemoryLeft returns the bytes below the memory limit of this process's cgroup that are not used by memory that
// cannot be reclaimed: anonymous, shared and kernel memory. Ancestors are not considered. limited is false without a limit,
// and on version 1. proc is the mountpoint of /proc. Returns an error if the cgroup can not be found or read.
func OwnMemoryLeft(proc string) (left uint64, limited bool, err error) {
	path, version, mounts, err := ownMemory(proc)
	if err != nil {
		return 0, false, fmt.Errorf("find the own memory: %w", err)
	}
	if version != V2 {
		return 0, false, nil
	}
	for _, m := range mounts {
		below, is := m.below(path)
		if !is {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.point, below, "memory.max"))
		if errors.Is(err, os.ErrNotExist) { // the root has none
			continue
		}
		if err != nil {
			return 0, false, fmt.Errorf("find the own memory: %w", err)
		}
		limit, limited, err := ParseLimit(text)
		if err != nil || !limited {
			return 0, false, err
		}
		used, err := unreclaimable(filepath.Join(m.point, below, "memory.stat"))
		if err != nil {
			return 0, false, fmt.Errorf("find the own memory: %w", err)
		}
		return limit - min(limit, used), true, nil
	}
	return 0, false, nil
}

// unreclaimable returns the bytes in a memory.stat of version 2 that the kernel cannot reclaim without swap. Locked pages of
// files are not among them.
func unreclaimable(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	kinds, err := parseKinds(text, V2, 0)
	if err != nil {
		return 0, err
	}
	stat, err := ParseMemoryStat(text, V2)
	if err != nil {
		return 0, err
	}
	kernel := kinds.Kernel.Value - min(kinds.Kernel.Value, stat.SlabReclaimable)
	return kinds.Anon.Value + kinds.Shmem.Value + kernel, nil
}

// ownMemory returns the path of this process's cgroup that accounts memory, with its version and the mounts of that.
func ownMemory(proc string) (path string, version Version, mounts []mount, err error) {
	own, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return "", 0, nil, err
	}
	text, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return "", 0, nil, err
	}
	paths, err := ParseCgroupFile(own)
	if err != nil {
		return "", 0, nil, err
	}
	path, version = paths["memory"], V1
	if path == "" {
		path, version = paths[""], V2
	}
	return path, version, memoryMounts(text, version), nil
}

// mount is a mount of cgroups: its mountpoint, and the cgroup mounted there.
type mount struct{ root, point string }

// below returns the path of a cgroup relative to the mount, if the mount contains it.
func (m mount) below(path string) (relative string, is bool) {
	if m.root == "/" {
		return path, true
	}
	relative, is = strings.CutPrefix(path, m.root)
	return relative, is && (relative == "" || relative[0] == '/')
}

// memoryMounts returns the mounts in the text of /proc/PID/mountinfo that account memory in a
// version. Lines in another format are skipped.
func memoryMounts(text []byte, v Version) (all []mount) {
	for line := range bytes.Lines(text) {
		place, kind, both := strings.Cut(string(bytes.TrimSuffix(line, newline)), " - ")
		where, what := strings.Fields(place), strings.Fields(kind)
		if !both || len(where) < 5 || len(what) < 3 {
			continue
		}
		memory := v == V2 && what[0] == "cgroup2" || v == V1 && what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory")
		if memory {
			all = append(all, mount{unescape.Replace(where[3]), unescape.Replace(where[4])})
		}
	}
	return all
}

// unescape replaces the escape sequences of mountinfo by their characters.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// lowestLimit returns the smallest limit of a cgroup and its ancestors, up to the mount.
func lowestLimit(point, path string, v Version) (limit uint64, limited bool, err error) {
	file := "memory.max"
	if v == V1 {
		file = "memory.limit_in_bytes"
	}
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		text, err := os.ReadFile(filepath.Join(point, path, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // missing at the root of v2
			return 0, false, err
		}
		if err == nil {
			l, is, err := ParseLimit(text)
			if err != nil {
				return 0, false, fmt.Errorf("%s: %w", filepath.Join(point, path, file), err)
			}
			if is && (!limited || l < limit) {
				limit, limited = l, true
			}
		}
		if path == "/" {
			return limit, limited, nil
		}
	}
}
