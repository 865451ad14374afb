package kill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Lack is a missing prerequisite of kills on this machine, with its remedy.
type Lack struct {
	What   string
	Cause  error
	Remedy string
	// Fatal lacks prevent kills; the others make them slower or less certain.
	Fatal bool
}

func (l Lack) Error() string {
	if l.Cause == nil {
		return l.What + ": " + l.Remedy
	}
	return fmt.Sprintf("%s: %v: %s", l.What, l.Cause, l.Remedy)
}

// Unwrap returns the kernel's error.
func (l Lack) Unwrap() error { return l.Cause }

// SelfTest tests the prerequisites of a kill on an idle child process: pidfds, the signal,
// process_mrelease. It also checks whether the cgroup trees are writable and their processes
// visible. It returns the missing ones, the most severe first.
func (k *Killer) SelfTest(ctx context.Context) []Lack {
	missing := k.tryChild(ctx)
	missing = append(missing, k.tryTrees()...)
	if have, err := hasCapability(unix.CAP_KILL); err != nil || !have {
		missing = append(missing, Lack{What: "no CAP_KILL", Cause: err, Fatal: k.mounts.oneByOne,
			Remedy: "add the capability KILL to the container: pods run as other users"})
	}
	severe := make([]Lack, 0, len(missing))
	for _, fatal := range [...]bool{true, false} {
		for _, l := range missing {
			if l.Fatal == fatal {
				severe = append(severe, l)
			}
		}
	}
	return severe
}

// tryChild kills a child the way a process of a pod is killed.
func (k *Killer) tryChild(ctx context.Context) []Lack {
	pid, errno := forkIdle()
	if errno != 0 {
		return []Lack{{What: "no child to try a kill on", Cause: errno, Remedy: "leave this process room for one more task (pids.max, RLIMIT_NPROC)"}}
	}
	defer reap(pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return []Lack{{What: "no pidfd_open", Cause: err, Remedy: "use Linux 5.3 or later, and a seccomp profile that allows it", Fatal: k.mounts.oneByOne}}
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return []Lack{{What: "no pidfd_send_signal", Cause: err, Remedy: "use Linux 5.1 or later, and a seccomp profile that allows it", Fatal: k.mounts.oneByOne}}
	}
	var missing []Lack
	if errno := processMrelease(fd); errno != 0 && errno != unix.ESRCH { // ESRCH: died already
		missing = append(missing, Lack{What: "no process_mrelease", Cause: errno,
			Remedy: "use Linux 5.15 or later, and a seccomp profile that allows it; until then a victim frees its memory on its own CPU time"})
	}
	if err := awaitExit(ctx, fd); err != nil {
		missing = append(missing, Lack{What: "a killed child did not exit", Cause: err, Remedy: "look for a machine that is out of CPU time", Fatal: true})
	}
	return missing
}

// tryTrees checks the mounts.
func (k *Killer) tryTrees() []Lack {
	var missing []Lack
	trees := [...]struct {
		fd    int
		what  string
		costs string
	}{
		{k.mounts.members, "the cgroup filesystem", "no cgroup.kill"},
		{k.mounts.pids, "the pids controller", "a fork bomb can outrun a kill"},
		{k.mounts.freezer, "the freezer controller", "a paused pod can not be killed"},
	}
	if k.mounts.oneByOne {
		trees[0].costs = "kills work nevertheless" // signals need no writes
		if k.mounts.version == cgroup.V2 {
			missing = append(missing, Lack{What: "no cgroup.kill", Remedy: "use Linux 5.14 or later; until then pods are killed process by process, which takes longer"})
		}
	}
	for i, tree := range trees {
		if i > 0 && k.mounts.version == cgroup.V2 { // one tree
			continue
		}
		if err := writable(tree.fd); err != nil {
			missing = append(missing, Lack{What: "no write access to " + tree.what, Cause: err, Remedy: "mount it writable: " + tree.costs})
		}
	}
	return append(missing, k.tryVisible()...)
}

func writable(fd int) error {
	if fd < 0 {
		return unix.ENOENT
	}
	return unix.Faccessat(fd, "cgroup.procs", unix.W_OK, 0)
}

// tryVisible checks for processes of foreign PID namespaces: on v2 in the cgroup of the kernel
// threads, which every host has. v1 omits such processes from its lists, so there only their
// possibility can be reported.
func (k *Killer) tryVisible() []Lack {
	if k.mounts.blind {
		return []Lack{{What: "this is not the host's PID namespace",
			Remedy: "set hostPID: true, or pods outside this namespace can not be killed on cgroup v1", Fatal: true}}
	}
	a := &attempt{k: k, w: k.idleWorkspace(), members: k.mounts.members, events: -1}
	if !a.w.busy.CompareAndSwap(false, true) {
		return nil // a kill is the better test
	}
	defer a.w.busy.Store(false)
	pids := a.w.pids[:0]
	if err := a.procs(k.mounts.members, &pids); err != nil {
		return []Lack{{What: "processes can not be listed", Cause: err, Remedy: "mount the cgroup filesystem readable", Fatal: true}}
	}
	for _, pid := range pids {
		if pid > 0 {
			continue
		}
		remedy := "set hostPID: true: without it their pods can only be killed by cgroup.kill, without SIGTERM before"
		if k.mounts.oneByOne {
			remedy = "set hostPID: true: without it their pods can not be killed, since there is no cgroup.kill"
		}
		return []Lack{{What: "some processes are in a foreign PID namespace", Remedy: remedy, Fatal: k.mounts.oneByOne}}
	}
	return nil
}

func awaitExit(ctx context.Context, pidfd int) error {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for ctx.Err() == nil {
		n, err := unix.Poll(poll, int(maxWait/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
	return ctx.Err()
}

// forkIdle creates a child that waits to be killed, and is killed when this thread ends. The child
// never returns to Go code that needs a scheduler: it may only make system calls on its current
// stack.
func forkIdle() (pid int, errno unix.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, errno := rawFork()
	if errno == 0 && child == 0 {
		idle()
	}
	return int(child), errno
}

//go:norace
//go:nosplit
func rawFork() (pid uintptr, errno unix.Errno) {
	pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

//go:norace
//go:nosplit
func idle() {
	unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	for {
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// reap ends the child in any case, and its zombie. The PID is safe to use: it is not reused before
// the child was waited for.
func reap(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// hasCapability reports whether the capability is in this process's effective set, capabilities(7).
func hasCapability(c int) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("read the capabilities: %w", err)
	}
	return data[c/32].Effective&(1<<(c%32)) != 0, nil
}
