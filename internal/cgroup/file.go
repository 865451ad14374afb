package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffer holds the text of a file during parsing. Readers may share one if they read
// sequentially.
type Buffer struct{ bytes []byte }

// NewBuffer returns a buffer with space for any file of this package (memory.stat has 1-2 KiB).
// For a larger file it grows by an allocation.
func NewBuffer() *Buffer { return &Buffer{make([]byte, 8<<10)} }

// File is a small text file of the kernel that stays open between reads. Reading it costs one
// pread(2), a quarter of the cost of opening it each time.
type File struct {
	path  string
	dir   *Dir // if set, the file is opened in it, independent of the current path
	fd    int  // -1 while closed
	fault *ReadError
}

// OpenFile opens the file at path for reading. Returns a [*ReadError] if it can not be opened.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, fd: -1}
	if errno := f.open(); errno != 0 {
		return nil, f.failed("open", errno)
	}
	return f, nil
}

// Path returns the file's path.
func (f *File) Path() string { return f.path }

// Close closes the file. A later read opens it again.
func (f *File) Close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
		f.fd = -1
	}
}

// Read returns the file's whole text, valid until the next use of the buffer. If the cgroup was
// removed (ENODEV), the file is opened once more, because another cgroup may have taken its
// path. Returns a [*ReadError] if the file can not be read.
func (f *File) Read(buf *Buffer) ([]byte, error) {
	fresh := f.fd < 0
	if fresh {
		if errno := f.open(); errno != 0 {
			return nil, f.failed("open", errno)
		}
	}
	text, errno := f.pread(buf)
	if errno == 0 {
		return text, nil
	}
	f.Close()
	if errno == unix.ENODEV && !fresh && f.dir == nil {
		return f.Read(buf)
	}
	return nil, f.failed("read", errno)
}

func (f *File) open() unix.Errno {
	at, name := unix.AT_FDCWD, f.path
	if f.dir != nil {
		at, name = f.dir.fd, filepath.Base(f.path)
	}
	for {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			f.fd = fd
			return 0
		}
		if err != unix.EINTR {
			return errnoOf(err)
		}
	}
}

// pread reads the file from its start, because the kernel generates the text for every read at
// offset 0. A text that fills the buffer may be truncated, so it is read again with a larger
// one.
func (f *File) pread(buf *Buffer) ([]byte, unix.Errno) {
	for {
		n, errno := pread(f.fd, buf.bytes)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return nil, errno
		case n < len(buf.bytes):
			return buf.bytes[:n], 0
		case n >= maxText:
			return nil, unix.EFBIG
		default:
			buf.bytes = make([]byte, 2*len(buf.bytes))
		}
	}
}

// pread calls pread(2) at offset 0, raw, without Go's scheduler. A regular call wakes the
// scheduler's monitor thread, which costs more than the read. The kernel generates these texts
// within microseconds and waits for no device.
//
// memory.stat may first add up the counters of all CPUs, milliseconds at worst, and delays a
// garbage collection by that time. But every check reads it, and as a regular call it would
// wake the monitor as often as if all calls were regular.
func pread(fd int, b []byte) (n int, errno unix.Errno) {
	count, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(count), 0
}

// maxText is the maximum size of a file, in bytes.
const maxText = 4 << 20

// failed returns the error of a failed operation. A repeated failure returns the same value.
func (f *File) failed(op string, errno unix.Errno) error {
	if f.fault == nil || f.fault.Op != op || f.fault.Errno != errno {
		f.fault = &ReadError{op, f.path, errno}
	}
	return f.fault
}

// ReadError is a failure to open or read a kernel file. It unwraps to the error number, so
// errors.Is(err, fs.ErrNotExist) works.
type ReadError struct {
	Op    string // "open" or "read"
	Path  string
	Errno unix.Errno
}

func (e *ReadError) Error() string {
	text := e.Op + " " + e.Path + ": " + e.Errno.Error()
	if remedy := remedies[e.Errno]; remedy != "" {
		text += ": " + remedy
	}
	return text
}

// Unwrap returns the error number.
func (e *ReadError) Unwrap() error { return e.Errno }

var remedies = map[unix.Errno]string{
	unix.ENOENT: "the cgroup or its controller does not exist: check the path, and that the controller is mounted or enabled",
	unix.ENODEV: "the cgroup was removed",
	unix.EACCES: "run as root, or where the file may be read",
	unix.EPERM:  "run as root, or where the file may be read",
	unix.EROFS:  "mount it writable: in a container, /sys/fs/cgroup and /proc are often read-only",
	unix.EMFILE: "raise the limit of open files (RLIMIT_NOFILE)",
	unix.ENFILE: "raise the machine's limit of open files (fs.file-max)",
}

// errnoOf returns the error number in err, or EIO without one.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

// malformed returns an error with the file that a parser refused, and the cause.
func malformed(f *File, err error) error {
	return fmt.Errorf("parse %s: %w: this kernel writes another format than the documented one", f.path, err)
}
