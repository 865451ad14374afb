package kill

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Names for openat without allocation, and the written values.
var (
	nameProcs        = cString("cgroup.procs")
	nameKill         = cString("cgroup.kill")
	nameEvents       = cString("cgroup.events")
	namePidsCurrent  = cString("pids.current")
	namePidsMax      = cString("pids.max")
	nameFreezerState = cString("freezer.state")
	namePidsMaxWas   = cString(attrPidsMax)

	zero   = []byte("0")
	one    = []byte("1")
	thawed = []byte("THAWED")
)

func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// openat is openat(2) with a name that ends with a zero byte: package unix would copy it to the
// heap.
func openat(dir int, name *byte, flags int) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)),
			uintptr(flags|unix.O_CLOEXEC|unix.O_NOFOLLOW), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
			continue
		}
		return -1, errno
	}
}

// processMrelease is process_mrelease(2), Linux 5.15.
func processMrelease(pidfd int) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_PROCESS_MRELEASE, uintptr(pidfd), 0, 0)
	return errno
}

// setxattr, getxattr and removexattr are fsetxattr(2) and its relatives with names that cost no
// allocation.
func setxattr(fd int, name *byte, value []byte) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_FSETXATTR, uintptr(fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), 0, 0)
	return errno
}

func getxattr(fd int, name *byte, into []byte) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_FGETXATTR, uintptr(fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)), 0, 0)
	return int(n), errno
}

func removexattr(fd int, name *byte) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_FREMOVEXATTR, uintptr(fd), uintptr(unsafe.Pointer(name)), 0)
	return errno
}
