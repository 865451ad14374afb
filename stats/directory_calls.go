package stats

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// isGone reports whether an entry has vanished since it was listed, or turned
// into something else.
func isGone(errno unix.Errno) bool {
	return errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.ELOOP
}

// look asks for what a walk needs to know and nothing more, and of a network
// filesystem only what is known here. It allocates nothing: the names stay
// where the kernel has listed them.
func (w *walker) look(dir int, name *byte, flags uintptr) unix.Errno {
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

// yield lets everybody else go first, on the processor and on the disk. It
// holds for the thread, which the caller's goroutine takes with it when it ends.
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
