package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Buffer holds the text of a file while it is parsed. Readers may share one
// as long as they are read one after the other.
type Buffer struct{ bytes []byte }

// NewBuffer makes a buffer with room for any file this package reads by itself
// (memory.stat has 1-2 KiB); it grows, allocating, if a file should be larger.
func NewBuffer() *Buffer { return &Buffer{make([]byte, 8<<10)} }

// A File is a small text file of the kernel that stays open between reads.
// Reading it costs one pread(2), a quarter of opening it each time.
type File struct {
	path  string
	dir   *Dir // if set, the file is opened in it, whatever is at its path now
	fd    int  // -1 while closed
	fault *ReadError
}

// OpenFile opens the file at path for reading.
func OpenFile(path string) (*File, error) {
	f := &File{path: path, fd: -1}
	if errno := f.open(); errno != 0 {
		return nil, f.failed("open", errno)
	}
	return f, nil
}

// Path is the file's path.
func (f *File) Path() string { return f.path }

// Close closes the file. A read afterwards opens it again.
func (f *File) Close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
		f.fd = -1
	}
}

// Read returns the file's whole text, valid until the buffer is used again. A
// file whose cgroup was removed (ENODEV) is opened once more, as another cgroup
// may have taken its place; the error is a [*ReadError].
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

// pread reads the file from its start: the kernel writes the text anew for
// every read at offset 0. A text that fills the buffer may be cut off, so it is
// read again with more room.
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

// pread is pread(2) at offset 0, raw: Go's scheduler is not told of it. Being
// told, it wakes its monitor, which costs more than the read. The kernel writes
// these texts within microseconds and waits for no device. memory.stat may first
// add up the counters of all CPUs, milliseconds at worst, for which a garbage
// collection then waits; but it is in every look, and read as an ordinary call it
// wakes the monitor as often as if all were.
func pread(fd int, b []byte) (n int, errno unix.Errno) {
	count, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(count), 0
}

// maxText bounds what is read of one file, in bytes.
const maxText = 4 << 20

// failed returns the error of a failed operation: the same value as before if
// it is the same failure.
func (f *File) failed(op string, errno unix.Errno) error {
	if f.fault == nil || f.fault.Op != op || f.fault.Errno != errno {
		f.fault = &ReadError{op, f.path, errno}
	}
	return f.fault
}

// A ReadError is a kernel file that could not be opened or read. It unwraps to
// the error number, so errors.Is(err, fs.ErrNotExist) works.
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

// errnoOf is the error number inside err; what has none counts as EIO.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}

// malformed says which file a parser refused, and why.
func malformed(f *File, err error) error {
	return fmt.Errorf("parse %s: %w: this kernel writes another format than the documented one", f.path, err)
}
