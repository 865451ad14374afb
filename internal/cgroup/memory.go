package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// MemoryUsage is what a cgroup and all below it use, in bytes.
type MemoryUsage struct {
	// Usage is everything charged: anonymous memory, page cache, kernel memory.
	// On the root of version 2, which keeps no such count, it is Anon + File,
	// as the kubelet counts: slab, page tables, sockets and huge pages are
	// missing from it there.
	Usage uint64
	MemoryStat
}

// WorkingSet is the usage without the page cache that the kernel takes back
// first, never below 0: what Kubernetes means by memory in use.
func (u MemoryUsage) WorkingSet() uint64 {
	return u.Usage - min(u.Usage, u.InactiveFile)
}

// Unreclaimable is what the kernel can not take back without swap: anonymous memory
// and files in memory (tmpfs). The latter outlive the processes that wrote them, until
// they are removed or unmounted. Kernel memory is not counted.
func (u MemoryUsage) Unreclaimable() uint64 {
	return u.Anon + u.File - min(u.File, u.ActiveFile+u.InactiveFile)
}

// memoryFiles names the files of the memory controller.
var memoryFiles = map[Version]struct{ usage, limit, hits string }{
	V1: {"memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt"},
	V2: {"memory.current", "memory.max", "memory.events"},
}

// A Memory reads the memory controller's files of one cgroup. It holds two
// descriptors, one more each once the limit and its hits were asked for.
type Memory struct {
	version  Version
	rootless bool // the root of version 2: no usage and no limit of its own
	usage    File
	stat     File
	limit    File
	hits     File
	buf      *Buffer
}

// OpenMemory opens the memory controller's files of the cgroup at path.
func OpenMemory(h Hierarchy, path string) (*Memory, error) {
	return OpenMemoryWith(h, path, NewBuffer())
}

// OpenMemoryWith is [OpenMemory] with a buffer that readers share.
func OpenMemoryWith(h Hierarchy, path string, buf *Buffer) (*Memory, error) {
	m := newMemory(h.Version, h.Dir("memory", path)+"/", nil, buf)
	if err := m.open(clean(path) == "/"); err != nil {
		return nil, err
	}
	return m, nil
}

// OpenMemory opens the memory controller's files of the cgroup that the
// directory is, of version v. Once that cgroup is removed they can not be read
// any more, even if another has taken its path.
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

// Close closes the files. A read afterwards opens them again.
func (m *Memory) Close() {
	m.usage.Close()
	m.stat.Close()
	m.limit.Close()
	m.hits.Close()
}

// Read reads the usage and memory.stat, in this order: two preads, about 5 µs.
// The two are not one instant; what was allocated in between is in neither.
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

// ErrNoUsage is what the root of version 2 answers when asked for its usage
// alone.
var ErrNoUsage = errors.New("the root of cgroup v2 has no memory.current: its usage is only in memory.stat")

// Usage reads only the usage in bytes: one pread, under 1 µs, and no flush of
// the counters of every CPU, which memory.stat costs. The working set can not
// be above it.
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

// Limit reads the cgroup's own limit in bytes. limited is false where it has
// none; one of its ancestors may have one.
func (m *Memory) Limit() (limit uint64, limited bool, err error) {
	if m.rootless {
		return 0, false, nil
	}
	return m.limit.readLimit(m.buf)
}

// LimitHits is how often usage was about to go above the limit since the cgroup
// was made; on version 2 that of a cgroup below it counts, too.
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
