package oomkill_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/internal/oomkill"
)

// A style is the form of the kernel's report: the statistics of a cgroup are one record (5.10), or one
// record each, with other keys on version 1.
type style int

const (
	oldKernel style = iota // Linux 5.10 to 6.3
	version2               // Linux 6.4 and later
	version1               // Linux 6.4 and later, cgroup v1
	styles
)

// kernel writes the records of /dev/kmsg as the kernel does.
type kernel struct {
	style    style
	shared   bool // another CPU prints a line after each incomplete record
	sequence uint64
	at       time.Duration
	limited  []time.Duration // times of reports, for the limit of their rate
	records  []string
}

// print writes a record of the kernel.
func (k *kernel) print(text string) { k.write(6, "-", text) }

// The bounds of a record in bytes: of its text, and of what /dev/kmsg returns since Linux 6.3.
const (
	maxText   = 1023 // PRINTKRB_RECORD_MAX without the NUL
	maxRecord = 2048 // PRINTK_MESSAGE_MAX
)

// write writes a record with a priority and flags. Control characters, backslashes and bytes beyond
// ASCII are escaped. What does not fit is dropped, the newline included. For an escaped byte the kernel
// needs one byte more than it writes, as scnprintf ends a text with a NUL.
func (k *kernel) write(priority int, flags, text string) {
	b := fmt.Appendf(nil, "%d,%d,%d,%s;", priority, k.sequence, k.at.Microseconds(), flags)
	add := func(text string, room int) { b = append(b, text[:min(len(text), max(room-len(b), 0))]...) }
	for _, c := range []byte(text[:min(len(text), maxText)]) {
		if c < ' ' || c >= 127 || c == '\\' {
			add(fmt.Sprintf(`\x%02x`, c), maxRecord-1)
		} else {
			add(string(rune(c)), maxRecord)
		}
	}
	add("\n", maxRecord)
	k.records = append(k.records, string(b))
	k.sequence++
	k.at += 3 * time.Microsecond
}

// printPieces writes a line that the kernel prints in pieces. A piece that the record has no room for begins
// another one.
func (k *kernel) printPieces(pieces ...string) {
	flags, text := "-", ""
	for _, piece := range pieces {
		if text != "" && len(text)+len(piece) > maxText {
			k.write(6, flags, text)
			if k.shared {
				k.print("eth0: link up")
			}
			flags, text = "c", ""
		}
		text += piece
	}
	k.write(6, flags, text)
}

// truncateLast drops the newline of the last record.
func (k *kernel) truncateLast() {
	last := &k.records[len(k.records)-1]
	*last = strings.TrimSuffix(*last, "\n")
}

// task is a process of a report. Amounts are in KiB.
type task struct {
	pid, uid          int
	name              string
	anon, file, shmem int
}

// oom is one OOM kill.
type oom struct {
	task
	cgroup     string // of the process
	limit      string // the cgroup at its limit; empty: the machine
	constraint string // empty: that of limit
	used, max  int    // KiB
	files      int    // bytes of files in memory
	cache      int    // bytes of page cache
	free       int    // pages of the machine
	group      string // with memory.oom.group
	members    []task // killed with it
	head       string // replaces the beginning of the line about a killed process
	within     string // a line of another part of the kernel, after the statistics
}

// kill writes the report of a kill. The kernel limits all but the last lines to ten in five seconds.
func (k *kernel) kill(o oom) {
	if k.reported() {
		k.dump(o)
		k.printPieces(k.scopePieces(o)...)
	}
	k.killed(o, o.task)
	if o.group != "" {
		k.printPieces("Tasks in ", o.group, " are going to be killed due to memory.oom.group set")
		for _, t := range o.members {
			k.killed(o, t)
		}
	}
}

func (k *kernel) reported() bool {
	for len(k.limited) > 0 && k.at-k.limited[0] >= 5*time.Second {
		k.limited = nil
	}
	if len(k.limited) >= 10 {
		return false
	}
	k.limited = append(k.limited, k.at)
	return true
}

func (k *kernel) dump(o oom) {
	k.write(4, "-", o.name+" invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
	k.write(4, "-", "CPU: 1 UID: 0 PID: 17462 Comm: "+o.name+" Not tainted 6.18.44 #1")
	k.write(4, "-", " <TASK>")
	if o.limit == "" {
		k.print("Mem-Info:")
		k.print(fmt.Sprintf("active_anon:12 inactive_anon:34 isolated_anon:0\n active_file:5 inactive_file:7 isolated_file:0\n unevictable:0 dirty:1 writeback:0\n mapped:3 shmem:2\n free:%d free_pcp:4 free_cma:0", o.free))
		k.print("Node 0 active_anon:48kB inactive_anon:136kB active_file:20kB inactive_file:28kB")
	} else {
		k.print(fmt.Sprintf("memory: usage %dkB, limit %dkB, failcnt 96", o.used, o.max))
		k.printPieces("Memory cgroup stats for ", o.limit, ":")
		k.statistics(o.files, o.cache)
	}
	if o.within != "" {
		k.print(o.within)
	}
	k.print("Tasks state (memory values in pages):")
	k.print("[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name")
	k.print(fmt.Sprintf("[%7d] %5d %5d   306931      595      128      467         0    86016        0             0 %s", o.pid, o.uid, o.pid, o.name))
}

func (k *kernel) statistics(files, cache int) {
	switch k.style {
	case oldKernel:
		k.print(fmt.Sprintf("anon 4096\nfile 8192\nkernel_stack 16384\nshmem %d\nfile_mapped 0\ninactive_file %d\nactive_file 4096\nfile_dirty 0", files, cache-4096))
	case version2:
		for _, line := range []string{"anon 4096", "file 8192", fmt.Sprintf("shmem %d", files), "file_mapped 0", fmt.Sprintf("inactive_file %d", cache), "active_file 0"} {
			k.print(line)
		}
	default:
		for _, line := range []string{"cache 0", "shmem 0", "inactive_file 0", "active_file 0", "hierarchical_memory_limit 67108864", "total_cache 4096", fmt.Sprintf("total_shmem %d", files),
			"total_inactive_file 0", fmt.Sprintf("total_active_file %d", cache), "total_swap 0"} {
			k.print(line)
		}
	}
}

// scope returns the line about the cgroups.
func (k *kernel) scope(o oom) string { return strings.Join(k.scopePieces(o), "") }

// scopePieces returns the pieces in which the kernel prints the line about the cgroups.
func (k *kernel) scopePieces(o oom) []string {
	constraint, limit := "CONSTRAINT_NONE", ",global_oom"
	if o.limit != "" {
		constraint, limit = "CONSTRAINT_MEMCG", ",oom_memcg="
	}
	if o.constraint != "" {
		constraint = o.constraint
	}
	return []string{"oom-kill:constraint=" + constraint + ",nodemask=(null)", ",cpuset=", "/", ",mems_allowed=0", limit, o.limit,
		",task_memcg=", o.cgroup, fmt.Sprintf(",task=%s,pid=%d,uid=%d", o.name, o.pid, o.uid)}
}

func (k *kernel) killed(o oom, t task) {
	head := "Memory cgroup out of memory"
	if o.limit == "" {
		head = "Out of memory"
	}
	if o.head != "" {
		head = o.head
	}
	k.write(3, "-", fmt.Sprintf("%s: Killed process %d (%s) total-vm:1350604kB, anon-rss:%dkB, file-rss:%dkB, shmem-rss:%dkB, UID:%d pgtables:216kB oom_score_adj:-998",
		head, t.pid, t.name, t.anon, t.file, t.shmem, t.uid))
}

// read returns the kills that a log contains.
func read(t *testing.T, l *oomkill.Log, records []string) (kills []oomkill.Kill) {
	t.Helper()
	for _, text := range records {
		r, ok := oomkill.ParseRecord(text)
		if !ok {
			t.Fatalf("not a record: %q", text)
		}
		if k, killed := l.Add(r); killed {
			kills = append(kills, k)
		}
	}
	return kills
}
