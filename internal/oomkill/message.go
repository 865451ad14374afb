package oomkill

import (
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// The beginnings and ends of the kernel's lines about OOM kills.
const (
	scopeHead  = "oom-kill:constraint="
	dumpMark   = " invoked oom-killer: gfp_mask="
	usageHead  = "memory: usage "
	statHead   = "Memory cgroup stats for /"
	pagesHead  = "active_anon:"
	statEnd    = "Tasks state (memory values in pages)"
	groupHead  = "Tasks in /"
	groupTail  = " are going to be killed due to memory.oom.group set"
	killMark   = ": Killed process "
	cgroupKill = "Memory cgroup out of memory"
)

// killCauses are the texts before killMark.
var killCauses = [...]string{cgroupKill, "Out of memory", "Out of memory (oom_kill_allocating_task)"}

// Process is a killed process.
type Process struct {
	PID  int           // in the initial PID namespace
	Name string        // chosen by the program; escaped as in the log
	Anon signals.Bytes // its anonymous memory
}

// killedLine is a line "…: Killed process 7 (name) total-vm:…".
type killedLine struct {
	Process
	ofCgroup bool // at the limit of a cgroup
	uid      string
}

// parseKilled parses the line about a killed process. is reports whether the text is such a line, ok
// whether all of it has the known format. The name is parsed from both sides, so that it may contain
// anything.
func parseKilled(text string) (k killedLine, is, ok bool) {
	for _, cause := range killCauses {
		rest, found := strings.CutPrefix(text, cause+killMark)
		if !found {
			continue
		}
		k.ofCgroup = cause == cgroupKill
		return k, true, k.parse(rest)
	}
	return k, false, false
}

func (k *killedLine) parse(rest string) bool {
	pid, rest, ok := strings.Cut(rest, " (")
	const nameEnd = ") total-vm:"
	end := strings.LastIndex(rest, nameEnd)
	if !ok || end < 0 {
		return false
	}
	n, fine := decimal(pid)
	amounts, tail, found := numbers(rest[end+len(nameEnd):], "kB, anon-rss:", "kB, file-rss:", "kB, shmem-rss:", "kB, UID:", " pgtables:", "kB oom_score_adj:")
	if _, err := strconv.ParseInt(tail, 10, 16); !fine || !found || err != nil || n < 1 || n > maxPID {
		return false
	}
	k.PID, k.Name = int(n), rest[:end]
	k.Anon = kibibytes(amounts[1])
	k.uid = strconv.FormatUint(amounts[4], 10)
	return true
}

// maxPID is PID_MAX_LIMIT of include/linux/threads.h.
const maxPID = 1 << 22

// numbers parses the number before each separator, and returns what follows the last one.
func numbers(text string, separators ...string) (all []uint64, rest string, ok bool) {
	for _, separator := range separators {
		digits, after, found := strings.Cut(text, separator)
		n, fine := decimal(digits)
		if !found || !fine {
			return nil, "", false
		}
		all, text = append(all, n), after
	}
	return all, text, true
}

// decimal parses digits, without a sign.
func decimal(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// unlimited is the amount from which on a limit means none. Version 1 writes no limit as the largest
// signed number.
const unlimited = signals.Bytes(1) << 62

// kibibytes converts an amount in kB. An amount beyond any machine stays at unlimited.
func kibibytes(n uint64) signals.Bytes {
	return signals.Bytes(min(n, uint64(unlimited)>>10)) << 10
}

// parseUsage parses "memory: usage 65536kB, limit 65536kB, failcnt 96", the usage of the cgroup at its
// limit. A cgroup of version 1 may lack a limit of its own: one for memory and swap was met. The text
// begins with usageHead.
func parseUsage(text string) (used, limit signals.Measured[signals.Bytes]) {
	n, failures, found := numbers(text[len(usageHead):], "kB, limit ", "kB, failcnt ")
	if _, fine := decimal(failures); !found || !fine {
		return used, limit
	}
	used = signals.Of(kibibytes(n[0]))
	if l := kibibytes(n[1]); l < unlimited>>1 {
		limit = signals.Of(l)
	}
	return used, limit
}

// statistics are amounts of a cgroup and all below it, in bytes.
type statistics struct {
	shared                   signals.Measured[signals.Bytes] // shared memory and files in memory
	activeFile, inactiveFile signals.Measured[signals.Bytes] // page cache of files on disk
}

// add adds the amounts of a record. Kernels before 6.4 write all of them in one record. A record with some
// of them in several lines is of another origin: the name of a process, which the kernel writes when it
// crashes, may contain such lines.
func (s *statistics) add(text string) {
	if !strings.Contains(text, newline) {
		s.set(text)
		return
	}
	var all statistics
	for line := range strings.SplitSeq(text, newline) {
		all.set(line)
	}
	if all.shared.Known && all.activeFile.Known && all.inactiveFile.Known {
		*s = all
	}
}

// newline is a newline as the kernel escapes it.
const newline = `\x0a`

// set sets the amount of a line. Version 1 has those with cgroups below it under other keys, which come
// later.
func (s *statistics) set(line string) {
	key, value, _ := strings.Cut(line, " ")
	var into *signals.Measured[signals.Bytes]
	switch strings.TrimPrefix(key, "total_") {
	case "shmem":
		into = &s.shared
	case "active_file":
		into = &s.activeFile
	case "inactive_file":
		into = &s.inactiveFile
	default:
		return
	}
	if n, ok := decimal(value); ok && n < uint64(unlimited) {
		*into = signals.Of(signals.Bytes(n))
	}
}

// held returns the part of a usage that is no page cache.
func (s *statistics) held(used signals.Measured[signals.Bytes]) signals.Measured[signals.Bytes] {
	cache := s.activeFile.Value + s.inactiveFile.Value
	if !used.Known || !s.activeFile.Known || !s.inactiveFile.Known || cache > used.Value {
		return signals.Measured[signals.Bytes]{}
	}
	return signals.Of(used.Value - cache)
}

// parsePages returns the number of the machine's pages that are free or page cache of files on disk. The line consists of
// keys with numbers alone. One about a crash begins with the name of a process, which can be any, and its PID in brackets.
func parsePages(text string) (pages uint64, ok bool) {
	found := 0
	for field := range strings.FieldsSeq(strings.ReplaceAll(text, newline, " ")) {
		key, value, _ := strings.Cut(field, ":")
		n, fine := decimal(value)
		switch {
		case !fine:
			return 0, false
		case key != "active_file" && key != "inactive_file" && key != "free":
			continue
		case n > maxPages:
			return 0, false
		}
		pages, found = pages+n, found+1
	}
	return pages, found == 3
}

// maxPages exceeds the number of pages of any machine.
const maxPages = 1 << 48

// scope is the place of a kill.
type scope struct {
	constraint  string
	limit, task string // cgroups; limit is empty if memory of the machine was exhausted
}

// parseScope parses a line "oom-kill:constraint=…,nodemask=…,cpuset=…,mems_allowed=…,oom_memcg=…,
// task_memcg=…,task=…,pid=…,uid=…" about a killed process. Without the limit of a cgroup it has
// global_oom in place of oom_memcg. ok is false if the line is about another process, or is ambiguous: a
// pod can give its cgroups names that contain the keys, and change the name of the process between the
// two lines. The text must be complete: a name may have the only key that remains of a truncated one.
func parseScope(text string, k *killedLine) (s scope, ok bool) {
	head, ok := strings.CutSuffix(text, ",task="+k.Name+",pid="+strconv.Itoa(k.PID)+",uid="+k.uid)
	if !ok {
		return scope{}, false
	}
	s.constraint, head, ok = strings.Cut(strings.TrimPrefix(head, scopeHead), ",nodemask=")
	const limitKey, machineKey, taskKey, nameKey = ",oom_memcg=", ",global_oom", ",task_memcg=", ",task="
	limits, machines := strings.Count(head, limitKey), strings.Count(head, machineKey)
	if !ok || strings.Count(head, taskKey) != 1 || strings.Contains(head, nameKey) || limits+machines != 1 || (limits == 1) != k.ofCgroup || (limits == 1) != (s.constraint == memcgConstraint) {
		return scope{}, false
	}
	before, task, _ := strings.Cut(head, taskKey)
	s.task = unescape(task)
	if limits == 1 {
		_, limit, _ := strings.Cut(before, limitKey)
		s.limit = unescape(limit)
		return s, strings.HasPrefix(s.task, "/") && strings.HasPrefix(s.limit, "/")
	}
	return s, strings.HasPrefix(s.task, "/") && strings.HasSuffix(before, machineKey)
}

// The constraints that name the exhausted memory. With the others (CONSTRAINT_CPUSET,
// CONSTRAINT_MEMORY_POLICY) only a part of the machine's memory was exhausted.
const (
	memcgConstraint   = "CONSTRAINT_MEMCG"
	machineConstraint = "CONSTRAINT_NONE"
)
