package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Dir is a cgroup's directory in one controller's tree, kept open so that its
// identity can be asked for and its processes be counted without walking the
// path again. It goes on meaning the same cgroup when another takes its path.
type Dir struct {
	path  string
	fd    int
	inode uint64
}

// OpenDir opens the directory of the cgroup at path in a controller's tree. It
// follows no symbolic link in the last place.
func OpenDir(h Hierarchy, controller, path string) (*Dir, error) {
	return openDir(h.Dir(controller, path))
}

func openDir(path string) (*Dir, error) {
	d := &Dir{path: path}
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

// Close closes the directory, for good.
func (d *Dir) Close() {
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
	}
}

// Inode tells this cgroup from one that was made later under the same path.
func (d *Dir) Inode() uint64 { return d.inode }

// Children is the number of cgroups right below this one, 0.5 µs; ok is false
// on a filesystem that does not count directories, and for a closed directory.
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

// CountProcs counts the processes in this cgroup, those in cgroups below it not
// included. A threaded cgroup of version 2 has none: they are its domain's. It
// opens cgroup.procs anew, about 6 µs: version 1 answers a kept descriptor from a
// list up to a second old, and reading it again keeps the old list alive.
func (d *Dir) CountProcs(buf *Buffer) (int, error) {
	fd, errno := d.openat(procsFile)
	if errno != 0 {
		return 0, &ReadError{"open", d.path + "/cgroup.procs", errno}
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	lines := 0
	for {
		n, err := unix.Read(fd, buf.bytes)
		switch {
		case err == unix.EINTR:
		case err == unix.EOPNOTSUPP:
			return 0, nil
		case err != nil:
			return 0, &ReadError{"read", d.path + "/cgroup.procs", errnoOf(err)}
		case n < someLines:
			return lines + bytes.Count(buf.bytes[:max(n, 0)], newline), nil
		default:
			lines += bytes.Count(buf.bytes[:n], newline)
		}
	}
}

// someLines is a read, in bytes, below which the file has ended: the kernel
// fills a page before it returns less than all.
const someLines = 2048

// CountProcsBelow counts the processes in all cgroups below this one, as
// containers that make cgroups of their own have them. It walks and allocates.
func (d *Dir) CountProcsBelow(buf *Buffer) (int, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, fmt.Errorf("list the cgroups below %s: %w", d.path, err)
	}
	total := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below, err := openDir(filepath.Join(d.path, e.Name()))
		if err != nil {
			continue // removed since it was listed: it has no process
		}
		direct, err := below.CountProcs(buf)
		nested := 0
		if err == nil {
			nested, err = below.CountProcsBelow(buf)
		}
		below.Close()
		if err != nil && !IsGone(err) {
			return 0, err
		}
		total += direct + nested
	}
	return total, nil
}

var procsFile = []byte("cgroup.procs\x00")

// openat opens a file of the directory, its name ending in a zero byte. The
// usual wrapper copies the name for every call; counting the processes of a few
// hundred containers while memory runs out should not allocate.
func (d *Dir) openat(name []byte) (fd int, errno unix.Errno) {
	for {
		r, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(d.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(name))), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != unix.EINTR {
			return int(r), errno
		}
	}
}

// Procs appends the ids of the processes in the cgroup at path, those in
// cgroups below it not included, to into. See [ParseProcs] for 0.
func Procs(h Hierarchy, controller, path string, into []int) ([]int, error) {
	name := filepath.Join(h.Dir(controller, path), "cgroup.procs")
	text, err := os.ReadFile(name)
	if err != nil {
		return into, fmt.Errorf("list the processes of a cgroup: %w", err)
	}
	if into, err = ParseProcs(text, into); err != nil {
		return into, fmt.Errorf("parse %s: %w", name, err)
	}
	return into, nil
}
