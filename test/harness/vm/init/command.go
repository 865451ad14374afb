package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/vm/wire"
)

// environment is that of every command without systemd. PLIMSOLL_VM marks a machine of this
// harness: destructive tests are safe in it.
var environment = []string{"PATH=/bin", "HOME=/root", "USER=root", "TMPDIR=" + scratch, "PLIMSOLL_VM=1"}

// run executes one command and reports its result.
func (r *reporter) run(i int, c *wire.Command) error {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir = append(r.environment(), c.Env...), c.Dir
	printed, err := r.connect(i, cmd)
	if err != nil {
		return err
	}
	if err := r.send(&wire.Line{Kind: wire.Began, Command: i}); err != nil {
		return err
	}
	begin := time.Now()
	end := wire.Line{Kind: wire.Ended, Command: i}
	if ended, kill, err := r.start(cmd); err != nil {
		end.Status, end.Why = 127, err.Error()
	} else {
		var late atomic.Bool
		timer := time.AfterFunc(c.Limit, func() { late.Store(true); kill() })
		end.Status, end.Why, err = ended()
		timer.Stop()
		if err != nil {
			return err
		}
		if late.Load() {
			end.Why = fmt.Sprintf("not finished after %v", c.Limit)
		}
	}
	end.Took = time.Since(begin)
	if r.endAll != nil {
		if err := r.endAll(); err != nil {
			return err
		}
	}
	if err := printed(); err != nil {
		return err
	}
	return r.send(&end)
}

// connect connects the command's output streams to the report. The returned function waits
// until all output is reported; the caller calls it after the end of all processes.
func (r *reporter) connect(i int, cmd *exec.Cmd) (printed func() error, err error) {
	passed := make(chan error, 2)
	var theirs []*os.File
	for stream, into := range map[int]func(*os.File){
		wire.Stdout: func(f *os.File) { cmd.Stdout = f },
		wire.Stderr: func(f *os.File) { cmd.Stderr = f },
	} {
		in, out, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		into(out)
		theirs = append(theirs, out)
		go func() { passed <- r.pass(i, stream, in) }()
	}
	return func() error {
		for _, f := range theirs {
			_ = f.Close() // otherwise the reader would wait forever
		}
		return errors.Join(<-passed, <-passed)
	}, nil
}

// environment returns the variables of every command.
func (r *reporter) environment() []string {
	if r.endAll == nil {
		return os.Environ() // of the service
	}
	return slices.Clone(environment)
}

// startAlone starts a command in a machine without other processes.
func startAlone(cmd *exec.Cmd) (ended func() (int, string, error), kill func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return func() (int, string, error) { return reap(cmd.Process.Pid) }, killAll, nil
}

// reap waits for the process, and for all orphans that exit before it.
func reap(pid int) (status int, why string, err error) {
	for {
		var ws unix.WaitStatus
		ended, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, "", fmt.Errorf("wait for process %d: %w", pid, err)
		case ended == pid && ws.Signaled():
			return 128 + int(ws.Signal()), "ended by " + ws.Signal().String(), nil
		case ended == pid:
			return ws.ExitStatus(), "", nil
		}
	}
}

// killAll ends every process except this one, which is init.
func killAll() { _ = unix.Kill(-1, unix.SIGKILL) } // ESRCH: there is none

// endAll kills and reaps the remaining processes of a command.
func endAll() error {
	killAll()
	for {
		switch _, err := unix.Wait4(-1, nil, 0, nil); {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("reap: %w", err)
		}
	}
}
