package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Process runs inside a container of a pod. The sandbox waits for it, so that no zombie
// remains; the caller must not.
type Process struct {
	PID  int
	cmd  *exec.Cmd
	done chan struct{}
}

// Done returns a channel that closes when the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has not exited.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// State returns the exit state of the process. It is valid only after Done.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Start runs a command inside a container's cgroups. The process is there before its first
// instruction: ptrace(2) stops it at execve(2) until it has been moved. On v2 it could be cloned
// into its cgroup, but kernels since 2025 end such a child at once if cgroup.kill was
// ever written there: clone3(2) compares the number of kills of two cgroups.
//
// Standard output must be a file or nil: the exec package closes its own pipe when the process
// exits, under the reader. Returns an error if the pod has no such container or the command can
// not be started.
func (n *Node) Start(p *Pod, container string, cmd *exec.Cmd) (*Process, error) {
	if !p.has(container) {
		return nil, fmt.Errorf("start %s: pod %s has no container %q", cmd.Path, p.UID, container)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("start %s: node %s is closed", cmd.Path, n.name)
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// The kernel schedules each session as a group (autogroup): a pod of thousands of processes, or one at
	// the highest niceness, leaves the other tests their share. A session has a process group of its own.
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setpgid = true, false
	if err := n.startStopped(p.container(container), cmd); err != nil {
		return nil, fmt.Errorf("start %s in container %s of pod %s: %w", cmd.Path, container, p.UID, err)
	}
	started := &Process{PID: cmd.Process.Pid, cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the process state contains the result
		close(started.done)
	}()
	return started, nil
}

// startStopped runs on one thread: the kernel accepts requests about a traced process only from
// the tracing thread.
func (n *Node) startStopped(below string, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	err := waitStopped(pid)
	if err == nil {
		err = n.place(below, pid)
	}
	if err == nil {
		err = syscall.PtraceDetach(pid)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return err
}

func waitStopped(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for process %d to stop at execve: %w", pid, err)
		case !status.Stopped():
			return fmt.Errorf("process %d ended before it ran: %v", pid, status)
		}
		return nil
	}
}

// place moves a process into a directory in every hierarchy.
func (n *Node) place(below string, pid int) error {
	for _, m := range n.layout.mounts {
		file := filepath.Join(m.dir, n.name, below, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move process %d: %w", pid, err)
		}
	}
	return nil
}
