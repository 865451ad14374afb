package kill

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Names for openat that cost no allocation, and what is written.
var (
	nameProcs        = cString("cgroup.procs")
	nameKill         = cString("cgroup.kill")
	nameEvents       = cString("cgroup.events")
	namePidsCurrent  = cString("pids.current")
	namePidsMax      = cString("pids.max")
	nameFreezerState = cString("freezer.state")

	zero   = []byte("0")
	one    = []byte("1")
	thawed = []byte("THAWED")
)

func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// openat is openat(2) with a name that ends with a zero byte: package unix
// would copy it to the heap.
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
