package hog

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The children below are forked without execve, for speed: a fork bomb of separate programs
// would leave a killer much more time. Such a child has one thread and no Go scheduler. It is
// limited to system calls on its current stack: no allocation, no race detector, no stack
// growth. Its system calls are those of package syscall, because those of package unix are
// assembly with race detector hooks around them.

// spread creates count processes that wait to be killed. Each new one forks half of its
// parent's remaining share, so their number doubles until the share is used up. If pids.max
// rejects a fork, they retry.
func spread(count int) error { return forked(count, grow) }

// chain creates a process that forks its successor and exits, count times: a target with
// constantly changing PIDs.
func chain(count int) error { return forked(count, relay) }

// daemons is spread with a session for each process, so that no signal to a process group ends them.
func daemons(count int) error {
	detached = true
	defer func() { detached = false }() // in this process
	return spread(count)
}

// detached makes forked processes leave the session.
var detached bool

// forked starts the first child with the complete share and runs body in it.
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
			if detached {
				syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			}
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

// threads creates count threads that wait to be killed.
func threads(count int) error {
	started := make(chan struct{})
	for range count {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			for { // a system call known to the scheduler, which then releases the CPU
				_, _ = unix.Ppoll(nil, nil, nil)
			}
		}()
		<-started
	}
	return nil
}
