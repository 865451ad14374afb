package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a walk through the cgroups that a container creates below its own.
const (
	// maxBelowDepth is the maximum depth of a walk. Each level holds a descriptor open.
	maxBelowDepth = 32
	// maxDirs is the maximum number of cgroups visited per [Bound], 15 µs each.
	maxDirs = 256
	// walkTime is the maximum duration of these visits.
	walkTime = 4 * time.Millisecond
	// clockEvery is the number of visits between two reads of the clock.
	clockEvery = 32
	// listBytes is the size of the buffer for one listing call.
	listBytes = 2 << 10
)

// ErrBound reports that more cgroups exist than are visited.
var ErrBound = errors.New("it has more cgroups, or deeper ones, than are visited")

// Bound limits the walks that count the processes of one pod, because a container may create
// any number of cgroups at any depth. The zero value is unused.
type Bound struct {
	visited int
	until   time.Time // zero before the first visit
}

// visit returns [ErrBound] if no further cgroup may be visited.
func (b *Bound) visit() error {
	if b.until.IsZero() {
		b.until = time.Now().Add(walkTime)
	}
	if b.visited >= maxDirs || b.visited > 0 && b.visited%clockEvery == 0 && time.Now().After(b.until) {
		return ErrBound
	}
	b.visited++
	return nil
}

// CountProcsBelow counts the processes in all cgroups below this one, as created by containers.
// Cgroups that vanish meanwhile count as empty. Returns [ErrBound], or the first failure to
// open, list or read a cgroup. With any error but that of a removed cgroup the count is a lower
// bound.
func (d *Dir) CountProcsBelow(buf *Buffer, bound *Bound) (int, error) {
	n, err := countBelow(d.fd, buf, bound, 0)
	if err != nil && !errors.Is(err, ErrBound) {
		err = fmt.Errorf("count the processes of the cgroups below %s: %w", d.path, err)
	}
	return n, err
}

// countBelow opens each cgroup relative to its parent, so that any path length works.
func countBelow(dir int, buf *Buffer, bound *Bound, depth int) (total int, first error) {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return 0, err
	}
	var list [listBytes]byte
	for {
		n, err := unix.Getdents(dir, list[:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n <= 0:
			return total, cmp.Or(first, err)
		}
		for name, rest := NextDirectory(list[:n]); name != nil || len(rest) > 0; name, rest = NextDirectory(rest) {
			if name == nil {
				continue
			}
			if err := bound.visit(); err != nil {
				return total, err
			}
			n, err := countChild(dir, name, buf, bound, depth+1)
			total += n
			if errors.Is(err, ErrBound) {
				return total, err
			}
			if err != nil && !IsGone(err) {
				first = cmp.Or(first, err)
			}
		}
	}
}

func countChild(parent int, name []byte, buf *Buffer, bound *Bound, depth int) (int, error) {
	dir, errno := openat(parent, name, unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	direct, errno := countProcs(dir, buf)
	if errno != 0 {
		return 0, errno
	}
	var st unix.Stat_t
	switch err := unix.Fstat(dir, &st); {
	case err == nil && st.Nlink == 2: // "." and its name: no children
		return direct, nil
	case depth == maxBelowDepth:
		return direct, ErrBound
	}
	nested, err := countBelow(dir, buf, bound, depth)
	return direct + nested, err
}

// Tasks reads the number of tasks (threads, not processes) in this cgroup and all below it from
// the pids controller, in about 6 µs. Returns a [*ReadError] if that controller does not count
// them. Only the first call allocates.
func (d *Dir) Tasks(buf *Buffer) (int, error) {
	if d.tasksFile == nil {
		d.tasksFile = append([]byte(d.tasks()), 0)
	}
	n, errno := d.readTasks(buf)
	if errno != 0 {
		return 0, &ReadError{"read", d.tasks(), errno}
	}
	v, err := ParseSingleValue(buf.bytes[:n])
	if err != nil {
		return 0, malformed(&File{path: d.tasks()}, err)
	}
	return int(min(v, maxTasks)), nil
}

func (d *Dir) readTasks(buf *Buffer) (n int, errno unix.Errno) {
	fd, errno := openat(unix.AT_FDCWD, d.tasksFile, 0)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for n, errno = pread(fd, buf.bytes); errno == unix.EINTR; {
		n, errno = pread(fd, buf.bytes)
	}
	return n, errno
}

// maxTasks exceeds the number of tasks of any kernel: PID_MAX_LIMIT is 4 Mi.
const maxTasks = 1 << 30
