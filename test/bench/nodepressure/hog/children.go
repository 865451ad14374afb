package hog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/gauge"
)

// sharedDescriptor is the first descriptor of [exec.Cmd.ExtraFiles].
const sharedDescriptor = 3

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// spawn starts children that perform steps, and returns when the last one has ended. A child that was
// killed is noted, and its parent goes on, as a build does.
func (p *process) spawn(s *Step) error {
	var all sync.WaitGroup
	slots := make(chan struct{}, max(s.AtOnce, 1))
	if s.AtOnce == 0 {
		slots = make(chan struct{}, max(s.Count, 1))
	}
	begin := time.Now()
	for i := range s.Count {
		sleepUntil(begin.Add(time.Duration(i) * s.Every))
		slots <- struct{}{}
		cmd, err := p.child(s)
		if err == nil {
			err = cmd.Start()
		}
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOMEM) { // no room for a process: a build goes on
			<-slots
			continue
		}
		if err != nil {
			return fmt.Errorf("start child %d: %w", i, err)
		}
		all.Go(func() {
			p.await(cmd)
			<-slots
		})
	}
	all.Wait()
	return nil
}

func (p *process) child(s *Step) (*exec.Cmd, error) {
	program, err := json.Marshal(Program{Scratch: p.Scratch, Gauge: p.Gauge, Steps: s.Steps, Lost: p.Lost})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", "child")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(program), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: s.Session}
	if p.shared == nil && uses(s.Steps, "shared") {
		if err := p.openShared(); err != nil {
			return nil, err
		}
	}
	if p.shared != nil {
		cmd.Args = append(cmd.Args, "shared")
		cmd.ExtraFiles = []*os.File{p.shared}
	}
	return cmd, nil
}

func uses(steps []Step, verb string) bool {
	for _, s := range steps {
		if s.Verb == verb || uses(s.Steps, verb) {
			return true
		}
	}
	return false
}

// await notes a child that a signal ended.
func (p *process) await(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state contains the result
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		return
	}
	at := gauge.Clock()
	f, err := os.OpenFile(p.Lost, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hog: note a killed child:", err)
	}
}

// snapshot forks a child that shares all memory with this process until one of them writes, holds it for
// a time and ends.
func snapshot(d time.Duration) error {
	pid, err := fork(d)
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return nil
}

// fork makes a child that ends after a time. It has one thread and no Go scheduler: it is limited to
// system calls on its stack.
func fork(d time.Duration) (int, error) {
	pause := syscall.NsecToTimespec(int64(d))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := clone()
	if errno != 0 {
		return 0, fmt.Errorf("fork: %w", errno)
	}
	if pid == 0 {
		holdAndExit(&pause)
	}
	return int(pid), nil
}

//go:norace
//go:nosplit
func clone() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

//go:norace
//go:nosplit
func holdAndExit(pause *syscall.Timespec) {
	// The kernel writes the rest of the time back if a signal interrupts it.
	for {
		_, _, errno := syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(pause)), uintptr(unsafe.Pointer(pause)), 0)
		if errno != syscall.EINTR {
			break
		}
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
