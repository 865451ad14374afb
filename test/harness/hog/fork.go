package hog

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The children below are forked without execve, for speed: a fork bomb of real
// programs would give a killer much more time. Such a child has one thread and
// no Go scheduler, so it may do nothing but system calls on the stack it has:
// no allocation, no race detector, no growth of the stack. So its system calls are
// those of package syscall: the ones of package unix are assembly, which the race
// detector is called around.

// spread makes count processes that wait to be killed. Each new one forks half
// of what its parent still had to fork, so their number doubles until the share
// is used up; where pids.max refuses, they go on trying.
func spread(count int) error { return forked(count, grow) }

// chain makes a process that forks its successor and ends, count times: a
// target that never has the same PID for long.
func chain(count int) error { return forked(count, relay) }

// forked starts the first child with the whole share and runs body in it.
func forked(count int, body func(int)) error {
	if count <= 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := fork()
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		body(count - 1)
	}
	return nil
}

// grow forks share processes in all, and then waits.
//
//go:norace
//go:nosplit
func grow(share int) {
	for share > 0 {
		pid, errno := fork()
		if errno != 0 {
			syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			continue
		}
		theirs := (share - 1) / 2
		if pid == 0 {
			share = theirs
			continue
		}
		share -= theirs + 1
	}
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// relay forks its successor and ends.
//
//go:norace
//go:nosplit
func relay(share int) {
	for share > 0 {
		pid, errno := fork()
		if errno != 0 {
			syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			continue
		}
		if pid != 0 {
			break
		}
		share--
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

//go:norace
//go:nosplit
func fork() (pid uintptr, errno unix.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// threads makes count threads that wait to be killed.
func threads(count int) error {
	started := make(chan struct{})
	for range count {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			for { // a system call the scheduler knows of: it lends the CPU on
				_, _ = unix.Ppoll(nil, nil, nil)
			}
		}()
		<-started
	}
	return nil
}
