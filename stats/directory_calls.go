package stats

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// isGone reports whether an entry has vanished since it was listed, or has changed its type.
func isGone(errno unix.Errno) bool {
	return errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.ELOOP
}

// statx calls statx(2) for the fields that a walk needs. A network filesystem answers from its
// cache. It allocates nothing, because the names stay in the kernel's listing.
func (w *walker) statx(dir int, name *byte, flags uintptr) unix.Errno {
	const want = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS | unix.STATX_MNT_ID
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
		flags|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, want, uintptr(unsafe.Pointer(&w.st)), 0)
	return errno
}

func openAt(dir int, name *byte) (int, unix.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), openFlags, 0, 0, 0)
		if errno != unix.EINTR {
			return int(fd), errno
		}
	}
}

// yield lowers the thread's priority on the processor, and makes its disk access idle-class.
// The thread ends with the caller's goroutine.
func yield() {
	const (
		nice         = 10
		ofProcess    = 1
		idleIO       = 3 << 13 // IOPRIO_CLASS_IDLE
		callerThread = 0
	)
	_ = unix.Setpriority(unix.PRIO_PROCESS, callerThread, nice)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, callerThread, idleIO)
}
