package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/test/harness/sandbox"
)

// A Component is one program of the cluster, running or not. Its methods may be
// called from any goroutine.
type Component struct {
	Name string
	// Log is the file of its standard output and error, kept over restarts.
	Log string

	system  *system
	command func() *exec.Cmd
	healthy func(context.Context) error

	mu      sync.Mutex
	cmd     *exec.Cmd
	process *sandbox.Process // of cmd
}

// patience bounds the start of a component until it answers, and its end after SIGTERM.
const patience = time.Minute

// pollInterval is the interval of checks without an event, requests to an API server mostly.
var pollInterval = rarely(20 * time.Millisecond)

// start runs the program and waits until it answers.
func (c *Component) start(ctx context.Context) error {
	if err := c.launch(); err != nil {
		return err
	}
	return c.AwaitHealthy(ctx)
}

func (c *Component) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && c.process.Alive() {
		return fmt.Errorf("start %s: it runs already as process %d", c.Name, c.process.PID)
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.command()
	cmd.Stdout, cmd.Stderr = log, log
	started, err := c.system.start(cmd)
	if err != nil {
		return err
	}
	c.cmd, c.process = cmd, started
	return nil
}

// AwaitHealthy waits until the component answers its health check.
func (c *Component) AwaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience(patience))
	defer cancel()
	err := await(ctx, func(ctx context.Context) error {
		if !c.Running() {
			return final{errors.New("it ended")}
		}
		return c.healthy(ctx)
	})
	if err != nil {
		return fmt.Errorf("wait until %s answers: %w\n%s", c.Name, err, c.Tail(tail))
	}
	return nil
}

// PID is the process, 0 if the component does not run.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || !c.process.Alive() {
		return 0
	}
	return c.process.PID
}

// Running reports whether the process is there, paused or not.
func (c *Component) Running() bool { return c.PID() != 0 }

// Stop ends the component by SIGTERM and waits for its exit. It resumes a paused component
// first. Returns an error if it does not exit within 1 min, or ctx ends first.
func (c *Component) Stop(ctx context.Context) error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = c.signal(syscall.SIGCONT) // it may have ended at once
	return c.ended(ctx)
}

// Kill ends the component by SIGKILL, as a crash would, and waits for its exit. Processes that
// containerd or a kubelet started continue to run. Returns an error if it does not exit within
// 1 min.
func (c *Component) Kill() error {
	return errors.Join(c.signal(syscall.SIGKILL), c.ended(context.Background()))
}

// Pause stops the process (SIGSTOP): connections stay open without any response. Returns an
// error if it does not run.
func (c *Component) Pause() error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, c.PID(), nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Resume continues a paused process. Returns an error if it does not run.
func (c *Component) Resume() error { return c.signal(syscall.SIGCONT) }

// Restart starts the component again and waits until it is ready. A running component is first
// ended by SIGTERM. Returns an error if it does not exit, or is not ready, in time.
func (c *Component) Restart(ctx context.Context) error {
	if c.Running() {
		if err := c.Stop(ctx); err != nil {
			return err
		}
	}
	return c.start(ctx)
}

func (c *Component) signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || !c.process.Alive() {
		return fmt.Errorf("send %v to %s: it does not run", sig, c.Name)
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", sig, c.Name, err)
	}
	return nil
}

func (c *Component) ended(ctx context.Context) error {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", c.Name, ctx.Err())
	case <-time.After(Patience(patience)):
		return fmt.Errorf("%s did not end within %v", c.Name, Patience(patience))
	}
}

// tail is the number of lines of a log in an error.
const tail = 30

// Tail returns the last lines of the component's log.
func (c *Component) Tail(lines int) string {
	text, err := os.ReadFile(c.Log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("--- %s: %v\n", c.Name, err)
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return fmt.Sprintf("--- %s, end of %s:\n%s\n", c.Name, filepath.Base(c.Log), strings.Join(all[max(0, len(all)-lines):], "\n"))
}

// Lines returns the last lines of the component's log that contain the text.
func (c *Component) Lines(text string) string {
	log, err := os.ReadFile(c.Log)
	if err != nil {
		return err.Error()
	}
	var found []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return strings.Join(found[max(0, len(found)-tail):], "")
}

// final is an error that does not change by waiting.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// await polls until there is no error. Returns the last error if ctx ends before.
func await(ctx context.Context, check func(context.Context) error) error {
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		err := check(ctx)
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticks.C:
		}
	}
}
