package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// MemoryUsage is the memory usage of a cgroup and all below it, in bytes.
type MemoryUsage struct {
	// Usage is all charged memory: anonymous memory, page cache, kernel memory. The root of
	// version 2 has no such counter, so there it is Anon + File, as in the kubelet. It lacks
	// slab, page tables, sockets and huge pages there.
	Usage uint64
	MemoryStat
}

// WorkingSet returns the usage without the page cache that the kernel reclaims first, never
// below 0. It is Kubernetes' definition of memory in use.
func (u MemoryUsage) WorkingSet() uint64 {
	return u.Usage - min(u.Usage, u.InactiveFile)
}

// Unreclaimable returns the memory that the kernel can not reclaim without swap: anonymous
// memory and files in memory (tmpfs). Such files outlive the processes that wrote them, until
// they are removed or unmounted. Kernel memory is not counted.
func (u MemoryUsage) Unreclaimable() uint64 {
	return u.Anon + u.FilesInMemory()
}

// FilesInMemory returns the memory in files of tmpfs and in shared memory. It stays charged after the
// end of all processes, until the files are removed or unmounted.
func (u MemoryUsage) FilesInMemory() uint64 {
	return u.File - min(u.File, u.ActiveFile+u.InactiveFile)
}

// WithoutCaches returns the memory that is freed with the cgroup's processes and its files in
// memory: the usage without page cache and without reclaimable slab. The kernel reclaims both
// anyway, and page cache stays charged to the ancestors of a removed cgroup. Version 1 does not
// report reclaimable slab, so there it is included.
func (u MemoryUsage) WithoutCaches() uint64 {
	return u.Held() - min(u.Held(), u.SlabReclaimable)
}

// Held returns the usage without page cache of files on disk, never below 0. It includes all kernel
// memory, as the amounts do that the kernel logs with an OOM kill.
func (u MemoryUsage) Held() uint64 {
	return u.Usage - min(u.Usage, u.ActiveFile+u.InactiveFile)
}

// memoryFiles are the names of the memory controller's files.
var memoryFiles = map[Version]struct{ usage, limit, hits string }{
	V1: {"memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt"},
	V2: {"memory.current", "memory.max", "memory.events"},
}

// Memory reads the memory controller's files of one cgroup. It holds two descriptors, and one
// more each after the first read of the limit and of its hits.
type Memory struct {
	version  Version
	rootless bool // the root of version 2: no usage and no limit of its own
	usage    File
	stat     File
	limit    File
	hits     File
	buf      *Buffer
}

// OpenMemory opens the memory controller's files of the cgroup at path. Returns a [*ReadError]
// if memory.stat or the usage can not be opened.
func OpenMemory(h Hierarchy, path string) (*Memory, error) {
	return OpenMemoryWith(h, path, NewBuffer())
}

// OpenMemoryWith is [OpenMemory] with a shared buffer.
func OpenMemoryWith(h Hierarchy, path string, buf *Buffer) (*Memory, error) {
	m := newMemory(h.Version, h.Dir("memory", path)+"/", nil, buf)
	if err := m.open(clean(path) == "/"); err != nil {
		return nil, err
	}
	return m, nil
}

// OpenMemory opens the memory controller's files of the directory's cgroup, of version v. After
// the removal of that cgroup they are unreadable, even if another one has taken its path.
// Returns a [*ReadError] if memory.stat or the usage can not be opened.
func (d *Dir) OpenMemory(v Version, buf *Buffer) (*Memory, error) {
	m := newMemory(v, d.path+"/", d, buf)
	if err := m.open(false); err != nil {
		return nil, err
	}
	return m, nil
}

func newMemory(v Version, place string, dir *Dir, buf *Buffer) *Memory {
	names := memoryFiles[v]
	return &Memory{
		version: v,
		usage:   File{path: place + names.usage, dir: dir, fd: -1},
		stat:    File{path: place + "memory.stat", dir: dir, fd: -1},
		limit:   File{path: place + names.limit, dir: dir, fd: -1},
		hits:    File{path: place + names.hits, dir: dir, fd: -1},
		buf:     buf,
	}
}

func (m *Memory) open(atRoot bool) error {
	if errno := m.stat.open(); errno != 0 {
		return m.stat.failed("open", errno)
	}
	errno := m.usage.open()
	m.rootless = errno == unix.ENOENT && m.version == V2 && atRoot
	if errno != 0 && !m.rootless {
		m.Close()
		return m.usage.failed("open", errno)
	}
	return nil
}

// Close closes the files. A later read opens them again.
func (m *Memory) Close() {
	m.usage.Close()
	m.stat.Close()
	m.limit.Close()
	m.hits.Close()
}

// Read reads the usage and memory.stat, in this order: two preads, about 5 µs. They are not
// atomic: memory allocated in between is in neither. Returns an error if a file is unreadable
// or malformed.
func (m *Memory) Read() (MemoryUsage, error) {
	var u MemoryUsage
	var err error
	if !m.rootless {
		if u.Usage, err = m.Usage(); err != nil {
			return MemoryUsage{}, err
		}
	}
	text, err := m.stat.Read(m.buf)
	if err != nil {
		return MemoryUsage{}, err
	}
	if u.MemoryStat, err = ParseMemoryStat(text, m.version); err != nil {
		return MemoryUsage{}, malformed(&m.stat, err)
	}
	if m.rootless {
		u.Usage = u.Anon + u.File
	}
	return u, nil
}

// ErrNoUsage reports that the root of version 2 has no separate usage.
var ErrNoUsage = errors.New("the root of cgroup v2 has no memory.current: its usage is only in memory.stat")

// Usage reads only the usage in bytes: one pread, under 1 µs, without the flush of every CPU's
// counters that memory.stat costs. It is an upper bound of the working set. Returns
// [ErrNoUsage] on the root of version 2, or an error if the file is unreadable or malformed.
func (m *Memory) Usage() (uint64, error) {
	if m.rootless {
		return 0, ErrNoUsage
	}
	text, err := m.usage.Read(m.buf)
	if err != nil {
		return 0, err
	}
	v, err := ParseSingleValue(text)
	if err != nil {
		return 0, malformed(&m.usage, err)
	}
	return v, nil
}

// Limit reads the cgroup's own limit in bytes. limited is false without one; an ancestor may
// have one. Returns an error if the file is unreadable or malformed.
func (m *Memory) Limit() (limit uint64, limited bool, err error) {
	if m.rootless {
		return 0, false, nil
	}
	return m.limit.readLimit(m.buf)
}

// LimitHits returns how often usage was about to exceed the limit since the creation of the
// cgroup. On version 2 hits of cgroups below it are included. Returns an error if the file is
// unreadable or malformed.
func (m *Memory) LimitHits() (uint64, error) {
	text, err := m.hits.Read(m.buf)
	if err != nil {
		return 0, err
	}
	var hits uint64
	if m.version == V1 {
		hits, err = ParseSingleValue(text)
	} else {
		var events MemoryEvents
		events, err = ParseMemoryEvents(text)
		hits = events.Max
	}
	if err != nil {
		return 0, malformed(&m.hits, err)
	}
	return hits, nil
}

func (f *File) readLimit(buf *Buffer) (limit uint64, limited bool, err error) {
	text, err := f.Read(buf)
	if err != nil {
		return 0, false, err
	}
	if limit, limited, err = ParseLimit(text); err != nil {
		return 0, false, malformed(f, err)
	}
	return limit, limited, nil
}
