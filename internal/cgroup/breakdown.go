package cgroup

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// Counted is a value of the kernel, or unknown.
type Counted struct {
	Value uint64
	Known bool
}

// Breakdown is the memory of a pod by kind, in bytes, with counters since the creation of its
// cgroup. The kernel has not every value on every version.
type Breakdown struct {
	WorkingSet, Anon, File, Shmem, Swap, Kernel Counted
	Tasks                                       Counted
	// StallSome and StallFull are the microseconds in which a task, or all tasks, waited for memory.
	StallSome, StallFull Counted
	// LimitHits is how often usage met a limit of the pod or of a container, and OOMKills the number
	// of processes killed by an OOM killer.
	LimitHits, OOMKills Counted
}

// BreakdownFiles are the open files of a pod that a [Breakdown] is read from.
type BreakdownFiles struct {
	version Version
	dir     *Dir
	below   int // number of containers on version 1

	usage, stat File
	swap        optional // version 2: version 1 has it in memory.stat
	kernel      optional // version 1: version 2 has it in memory.stat
	pressure    optional // version 2
	tasks       optional
	events      optional   // version 2
	hits, kills []optional // version 1: of the pod and each container
}

// optional is a file that not every kernel has.
type optional struct {
	File
	absent bool
}

// OpenBreakdown opens the files of a pod's cgroup. Returns a [*ReadError] if it has no memory
// controller.
func OpenBreakdown(h Hierarchy, p Pod) (*BreakdownFiles, error) {
	dir, err := OpenDir(h, "memory", p.Path)
	if err != nil {
		return nil, err
	}
	names := memoryFiles[h.Version]
	in := func(name string) File { return File{path: path.Join(dir.path, name), dir: dir, fd: -1} }
	f := &BreakdownFiles{version: h.Version, dir: dir, usage: in(names.usage), stat: in("memory.stat"),
		tasks: optional{File: File{path: path.Join(h.Dir("pids", p.Path), "pids.current"), fd: -1}}}
	f.swap, f.kernel, f.pressure, f.events = absentFile(), absentFile(), absentFile(), absentFile()
	if h.Version == V2 {
		f.swap, f.pressure, f.events = optional{File: in("memory.swap.current")}, optional{File: in("memory.pressure")}, optional{File: in("memory.events")}
		return f, nil
	}
	f.kernel = optional{File: in("memory.kmem.usage_in_bytes")}
	f.below, _ = dir.Children()
	f.hits, f.kills = []optional{{File: in(names.hits)}}, []optional{{File: in("memory.oom_control")}}
	for _, c := range p.Containers {
		at := h.Dir("memory", c.Path)
		f.hits = append(f.hits, optional{File: File{path: path.Join(at, names.hits), fd: -1}})
		f.kills = append(f.kills, optional{File: File{path: path.Join(at, "memory.oom_control"), fd: -1}})
	}
	return f, nil
}

func absentFile() optional { return optional{File: File{fd: -1}, absent: true} }

// Descriptors returns the number of open files after a read.
func (f *BreakdownFiles) Descriptors() int {
	n := 4 // the directory, usage, memory.stat and tasks
	for _, o := range []*optional{&f.swap, &f.kernel, &f.pressure, &f.events} {
		if !o.absent {
			n++
		}
	}
	return n + len(f.hits) + len(f.kills)
}

// Changed reports whether the pod's containers changed, so that its files must be opened again.
func (f *BreakdownFiles) Changed() bool {
	if f.version == V2 {
		return false
	}
	n, ok := f.dir.Children()
	return !ok || n != f.below
}

// Close closes all files.
func (f *BreakdownFiles) Close() {
	f.dir.Close()
	for _, o := range []*File{&f.usage, &f.stat, &f.swap.File, &f.kernel.File, &f.pressure.File, &f.tasks.File, &f.events.File} {
		o.Close()
	}
	for i := range f.hits {
		f.hits[i].Close()
		f.kills[i].Close()
	}
}

// Read reads all values, 10-20 µs. A value that can not be read is unknown. Returns an error if the
// cgroup is gone, or its memory can not be read.
func (f *BreakdownFiles) Read(buf *Buffer) (b Breakdown, err error) {
	text, err := f.usage.Read(buf)
	if err != nil {
		return b, err
	}
	usage, err := ParseSingleValue(text)
	if err != nil {
		return b, malformed(&f.usage, err)
	}
	if text, err = f.stat.Read(buf); err != nil {
		return b, err
	}
	if b, err = parseKinds(text, f.version, usage); err != nil {
		return b, malformed(&f.stat, err)
	}
	if !f.swap.absent {
		b.Swap = f.swap.number(buf)
	}
	if !f.kernel.absent {
		b.Kernel = f.kernel.number(buf)
	}
	b.Tasks = f.tasks.number(buf)
	if text := f.pressure.text(buf); text != nil {
		if some, full, err := ParseStalls(text); err == nil {
			b.StallSome, b.StallFull = Counted{uint64(some.Microseconds()), true}, Counted{uint64(full.Microseconds()), true}
		}
	}
	f.readEvents(buf, &b)
	return b, nil
}

// readEvents reads the counters of limits and kills.
func (f *BreakdownFiles) readEvents(buf *Buffer, b *Breakdown) {
	if text := f.events.text(buf); text != nil {
		if events, err := ParseMemoryEvents(text); err == nil {
			b.LimitHits, b.OOMKills = Counted{events.Max, true}, Counted{events.OOMKill, true}
		}
	}
	for i := range f.hits {
		if n := f.hits[i].number(buf); n.Known {
			b.LimitHits = Counted{b.LimitHits.Value + n.Value, true}
		}
		if text := f.kills[i].text(buf); text != nil {
			if kills, err := ParseOOMKills(text); err == nil {
				b.OOMKills = Counted{b.OOMKills.Value + kills, true}
			}
		}
	}
}

// text returns the text of a file, and nil if it can not be read.
func (o *optional) text(buf *Buffer) []byte {
	if o.absent {
		return nil
	}
	text, err := o.Read(buf)
	if err == nil {
		return text
	}
	o.absent = errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP)
	return nil
}

func (o *optional) number(buf *Buffer) Counted {
	text := o.text(buf)
	if text == nil {
		return Counted{}
	}
	v, err := ParseSingleValue(text)
	return Counted{v, err == nil}
}

// parseKinds parses the kinds of memory in memory.stat. Returns an error if a line is malformed, or
// one is missing that every kernel writes.
func parseKinds(text []byte, v Version, usage uint64) (b Breakdown, err error) {
	var inactive uint64
	wanted := [...]keyed{{"anon", &b.Anon.Value, false}, {"file", &b.File.Value, false}, {"inactive_file", &inactive, false},
		{"shmem", &b.Shmem.Value, false}, {"kernel", &b.Kernel.Value, false}}
	var parts [4]uint64 // of the kernel's memory, before Linux 5.18
	kernel := [...]keyed{{"slab", &parts[0], false}, {"kernel_stack", &parts[1], false}, {"pagetables", &parts[2], false}, {"percpu", &parts[3], false}}
	if v == V1 {
		for i, key := range [...]string{"total_rss", "total_cache", "total_inactive_file", "total_shmem", "total_swap"} {
			wanted[i].key = key
		}
		wanted[4].value = &b.Swap.Value
	}
	if _, err := parseKeyed(text, "memory.stat", wanted[:]); err != nil {
		return Breakdown{}, err
	}
	if err := missing("memory.stat", wanted[:3]); err != nil {
		return Breakdown{}, err
	}
	b.WorkingSet = Counted{usage - min(usage, inactive), true}
	b.Anon.Known, b.File.Known, b.Shmem.Known = true, true, wanted[3].seen
	if v == V1 {
		b.Swap.Known = wanted[4].seen
		return b, nil
	}
	if b.Kernel.Known = wanted[4].seen; !b.Kernel.Known {
		found, err := parseKeyed(text, "memory.stat", kernel[:])
		b.Kernel = Counted{parts[0] + parts[1] + parts[2] + parts[3], err == nil && found > 0}
	}
	return b, nil
}

// ParseStalls parses the totals of a pressure file: the time in which at least one task waited, and
// that in which all waited. Returns an error if a line is missing or malformed.
func ParseStalls(text []byte) (some, full time.Duration, err error) {
	p, err := ParsePressure(text)
	if err != nil {
		return 0, 0, err
	}
	all, err := parsePressure(text, fullLine)
	return p.Total, all.Total, err
}

// ParseVMStatOOMKills parses the number of processes that the OOM killer has killed on the machine
// in /proc/vmstat. Returns an error if the line is malformed or missing; kernels have written it
// since 4.13.
func ParseVMStatOOMKills(text []byte) (uint64, error) {
	var kills uint64
	wanted := [...]keyed{{"oom_kill", &kills, false}}
	_, err := parseKeyed(text, "vmstat", wanted[:])
	if err == nil {
		err = missing("vmstat", wanted[:])
	}
	return kills, err
}
