package cgroup

import (
	"bytes"
	"fmt"
	"math"
)

// unlimited is the number above which a limit means none. Version 1 writes "no limit" as the
// largest signed number rounded down to a page, and no machine has that much memory.
const unlimited = 1 << 62

// ParseSingleValue parses a file with one number, such as memory.usage_in_bytes, memory.current
// and pids.current. Returns an error if the text is no number.
func ParseSingleValue(text []byte) (uint64, error) {
	v, ok := number(bytes.TrimSuffix(text, newline))
	if !ok {
		return 0, fmt.Errorf("%.40q is no number", text)
	}
	return v, nil
}

// ParseLimit parses a file with a limit, such as memory.limit_in_bytes, memory.max and
// pids.max. limited is false for "max" or a number above 2^62. Returns an error if the text is
// neither a number nor "max".
func ParseLimit(text []byte) (limit uint64, limited bool, err error) {
	text = bytes.TrimSuffix(text, newline)
	if string(text) == "max" {
		return 0, false, nil
	}
	limit, ok := number(text)
	switch {
	case !ok:
		return 0, false, fmt.Errorf(`%.40q is neither a number nor "max"`, text)
	case limit > unlimited:
		return 0, false, nil
	}
	return limit, true, nil
}

// MemoryStat is the part of memory.stat that eviction decisions use, in bytes, for the cgroup
// and all below it.
type MemoryStat struct {
	Anon         uint64 // v1 total_rss, v2 anon: anonymous memory
	File         uint64 // v1 total_cache, v2 file: page cache, tmpfs and shared memory included
	ActiveFile   uint64 // page cache used more than once; the kubelet counts it as used
	InactiveFile uint64 // page cache reclaimed first; the kubelet counts it as available
	// SlabReclaimable is kernel memory that is reclaimed like page cache. Version 1 does not report
	// it: 0.
	SlabReclaimable uint64
}

// Plus returns the sum of both.
func (s MemoryStat) Plus(o MemoryStat) MemoryStat {
	return MemoryStat{s.Anon + o.Anon, s.File + o.File, s.ActiveFile + o.ActiveFile, s.InactiveFile + o.InactiveFile,
		s.SlabReclaimable + o.SlabReclaimable}
}

// Minus returns the difference, with each field at least 0.
func (s MemoryStat) Minus(o MemoryStat) MemoryStat {
	return MemoryStat{s.Anon - min(s.Anon, o.Anon), s.File - min(s.File, o.File),
		s.ActiveFile - min(s.ActiveFile, o.ActiveFile), s.InactiveFile - min(s.InactiveFile, o.InactiveFile),
		s.SlabReclaimable - min(s.SlabReclaimable, o.SlabReclaimable)}
}

// statKeys are the required keys of memory.stat, in the order of MemoryStat's fields.
var statKeys = map[Version][requiredFields]string{
	V1: {"total_rss", "total_cache", "total_active_file", "total_inactive_file"},
	V2: {"anon", "file", "active_file", "inactive_file"},
}

const (
	requiredFields = 4
	statFields     = requiredFields + 1 // and SlabReclaimable
)

// ParseMemoryStat parses memory.stat. Version 1 writes most keys twice: only those with
// "total_" include the cgroups below. Returns an error if a line is malformed or one of the
// four is missing; every kernel under a supported Kubernetes writes them.
func ParseMemoryStat(text []byte, v Version) (MemoryStat, error) {
	var s MemoryStat
	fields := [statFields]*uint64{&s.Anon, &s.File, &s.ActiveFile, &s.InactiveFile, &s.SlabReclaimable}
	var seen [statFields]bool
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, newline)
		i := statField(line, v)
		if i < 0 {
			continue
		}
		value, ok := number(line[bytes.IndexByte(line, ' ')+1:])
		if !ok {
			return MemoryStat{}, fmt.Errorf("line %.60q of memory.stat has no number", line)
		}
		*fields[i], seen[i] = value, true
	}
	for i, ok := range seen[:requiredFields] {
		if !ok {
			return MemoryStat{}, fmt.Errorf("memory.stat has no line %q, which every cgroup %s kernel writes", statKeys[v][i], v)
		}
	}
	return s, nil
}

// statField returns the index of the field for a line of memory.stat, -1 for other lines. A
// switch of constants costs a fifth of a map lookup.
func statField(line []byte, v Version) int {
	key, _, _ := bytes.Cut(line, space)
	if v == V1 {
		var total bool
		if key, total = bytes.CutPrefix(key, totalPrefix); !total {
			return -1
		}
		switch string(key) {
		case "rss":
			return 0
		case "cache":
			return 1
		}
	}
	switch string(key) {
	case "anon":
		if v == V2 {
			return 0
		}
	case "file":
		if v == V2 {
			return 1
		}
	case "active_file":
		return 2
	case "inactive_file":
		return 3
	case "slab_reclaimable":
		return requiredFields
	}
	return -1
}

var (
	newline     = []byte("\n")
	space       = []byte(" ")
	totalPrefix = []byte("total_")
)

// ParseCgroupFile parses /proc/PID/cgroup: the path of the process in the tree of every
// controller, and under "" that in the tree of version 2. A named version 1 tree is listed
// under its name ("name=systemd"). A removed cgroup's path ends in " (deleted)". Returns an
// error if a line is malformed.
func ParseCgroupFile(text []byte) (map[string]string, error) {
	paths := map[string]string{}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, newline)
		_, rest, ok := bytes.Cut(line, []byte(":"))
		controllers, path, both := bytes.Cut(rest, []byte(":"))
		if !ok || !both {
			return nil, fmt.Errorf("line %.80q of a process's cgroup file is not hierarchy:controllers:path", line)
		}
		for c := range bytes.SplitSeq(controllers, []byte(",")) {
			paths[string(c)] = string(path)
		}
	}
	return paths, nil
}

// number parses an unsigned decimal number without any other character.
func number(text []byte) (v uint64, ok bool) {
	if len(text) == 0 {
		return 0, false
	}
	for _, c := range text {
		d := uint64(c - '0')
		if d > 9 || v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, true
}
