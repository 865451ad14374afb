package cgroup

import (
	"bytes"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Dir is the open directory of a cgroup in one controller's tree. It gives access to the
// identity and the processes of the cgroup without resolving the path again. It refers to the
// same cgroup even after another one has taken its path.
type Dir struct {
	path  string
	fd    int
	inode uint64

	h         Hierarchy
	at        string // the cgroup's path relative to each controller's mount
	tasksFile []byte // path of the task counter, which ends in a zero byte; nil before its first use
}

// OpenDir opens the directory of the cgroup at path in a controller's tree. It does not follow
// a symbolic link in the last element. Returns a [*ReadError] if the directory can not be
// opened.
func OpenDir(h Hierarchy, controller, path string) (*Dir, error) {
	d := &Dir{path: h.Dir(controller, path), h: h, at: path}
	fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &ReadError{"open", d.path, errnoOf(err)}
	}
	d.fd = fd
	st, err := d.stat()
	if err != nil {
		d.Close()
		return nil, err
	}
	d.inode = st.Ino
	return d, nil
}

// Close closes the directory permanently.
func (d *Dir) Close() {
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// Inode distinguishes this cgroup from a later one at the same path.
func (d *Dir) Inode() uint64 { return d.inode }

// Children returns the number of direct child cgroups, in 0.5 µs. ok is false on a filesystem
// that does not count directories, and for a closed directory.
func (d *Dir) Children() (n int, ok bool) {
	st, err := d.stat()
	if err != nil || st.Nlink < 2 {
		return 0, false
	}
	return int(st.Nlink) - 2, true
}

func (d *Dir) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return st, &ReadError{"stat", d.path, errnoOf(err)}
	}
	return st, nil
}

// CountProcs counts the processes in this cgroup, without those in cgroups below it. A threaded
// cgroup of version 2 has none, because they belong to its domain. It opens cgroup.procs anew,
// about 6 µs: version 1 answers an open descriptor from a list up to a second old, and
// rereading it prolongs the old list. Returns a [*ReadError] if the file can not be read.
func (d *Dir) CountProcs(buf *Buffer) (int, error) {
	n, errno := countProcs(d.fd, buf)
	if errno != 0 {
		return 0, &ReadError{"read", d.path + "/cgroup.procs", errno}
	}
	return n, nil
}

func countProcs(dir int, buf *Buffer) (int, unix.Errno) {
	fd, errno := openat(dir, procsFile, 0)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	lines := 0
	for {
		n, err := unix.Read(fd, buf.bytes)
		switch {
		case err == unix.EINTR:
		case err == unix.EOPNOTSUPP:
			return 0, 0
		case err != nil:
			return 0, errnoOf(err)
		case n < someLines:
			return lines + bytes.Count(buf.bytes[:max(n, 0)], newline), 0
		default:
			lines += bytes.Count(buf.bytes[:n], newline)
		}
	}
}

// someLines is the size of a read, in bytes, below which the file has ended. The kernel fills a
// page before it returns less than everything.
const someLines = 2048

// tasks returns the path of the cgroup's task counter.
func (d *Dir) tasks() string { return filepath.Join(d.h.Dir("pids", d.at), "pids.current") }

var procsFile = []byte("cgroup.procs\x00")

// openat opens a file in a directory; the name ends in a zero byte. The usual wrapper copies
// the name on every call, but counting the processes of a few hundred containers under memory
// pressure should not allocate.
func openat(dir int, name []byte, flags int) (fd int, errno unix.Errno) {
	for {
		r, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir),
			uintptr(unsafe.Pointer(unsafe.SliceData(name))), uintptr(unix.O_RDONLY|unix.O_CLOEXEC|flags), 0, 0, 0)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}
