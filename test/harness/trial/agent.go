package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"plimsoll.dev/plimsoll/agent"
)

// patience bounds the exit of an agent after SIGTERM: the chart's
// terminationGracePeriodSeconds, after which a kubelet kills it.
const patience = 30 * time.Second

// Agent is a running agent.
type Agent struct {
	// Decisions delivers the lines of its decision log. It is closed when the agent has exited.
	Decisions <-chan agent.Decision
	PID       int

	cmd       *exec.Cmd
	decisions chan agent.Decision
	manifests chan int      // the number of pods after each change of their manifests
	watching  chan struct{} // closed once checks run
	exited    chan error
	log       []string // its last other lines

	mu       sync.Mutex
	warnings []string
}

// backlog is the capacity of Decisions and of the numbers of pods: a trial that does not read them
// does not block the agent.
const backlog = 4096

// maxLog is the number of other lines that are kept: those of a start, and of some minutes.
const maxLog = 200

// Start runs `BINARY agent ARGS…` and waits until it monitors the node. Returns an error with
// the agent's log if it exits, or ctx ends, before.
func Start(ctx context.Context, binary string, args ...string) (*Agent, error) {
	return Run(ctx, Command(binary, args...))
}

// Command returns the command of an agent, armed from its start unless args disarm it: the last
// of several values of a flag applies.
func Command(binary string, args ...string) *exec.Cmd {
	return exec.Command(binary, append([]string{"agent", "--logging-format=json", "--dry-run=false"}, args...)...)
}

// Run starts an agent's command and waits until it monitors the node. Returns an error with the
// agent's log if it exits, or ctx ends, before.
func Run(ctx context.Context, cmd *exec.Cmd) (*Agent, error) {
	a := &Agent{
		cmd:       cmd,
		decisions: make(chan agent.Decision, backlog),
		manifests: make(chan int, backlog),
		watching:  make(chan struct{}),
		exited:    make(chan error, 1),
	}
	a.Decisions = a.decisions
	// In a session of its own, its niceness does not count against the processes of other tests.
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setsid: true}
	out, err := a.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w: build it with `make build`", err)
	}
	a.PID = a.cmd.Process.Pid
	go a.listen(out)
	select {
	case <-a.watching:
		return a, nil
	case err := <-a.exited:
		return nil, fmt.Errorf("the agent ended at once: %w\n%s", err, a.Log())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), a.Stop())
	}
}

// listen separates decisions from other lines.
func (a *Agent) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d agent.Decision
		var log struct {
			Msg, Level string
			Pods       int
		}
		switch {
		case json.Unmarshal(lines.Bytes(), &d) == nil && d.Decision != "":
			select {
			case a.decisions <- d:
			default: // no reader
			}
		case json.Unmarshal(lines.Bytes(), &log) == nil && log.Msg == "Started agent":
			close(a.watching)
		case log.Msg == "Read the pod manifests":
			select {
			case a.manifests <- log.Pods:
			default: // no reader
			}
		default:
			a.log = append(a.log[max(0, len(a.log)-maxLog+1):], lines.Text())
			if log.Level == "WARN" {
				a.warn(lines.Text())
			}
		}
	}
	close(a.decisions)
	close(a.manifests)
	a.exited <- a.cmd.Wait()
}

// maxWarnings bounds the warnings that are stored.
const maxWarnings = 1000

func (a *Agent) warn(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.warnings) < maxWarnings {
		a.warnings = append(a.warnings, line)
	}
}

// Warned reports whether a warning in the agent's log contains all parts. It is valid at any time.
func (a *Agent) Warned(parts ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.warnings, func(line string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// Log returns the last log lines of the agent without decisions. It is valid only after
// Decisions is closed.
func (a *Agent) Log() string { return strings.Join(a.log, "\n") }

// Stop ends the agent by SIGTERM. Returns an error if the agent does not exit in time with code
// 0.
func (a *Agent) Stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return a.await("SIGTERM")
}

// Kill ends the agent by SIGKILL, as a crash would. Returns an error if the agent does not exit
// in time.
func (a *Agent) Kill() error {
	if err := a.cmd.Process.Kill(); err != nil {
		return err
	}
	if err := a.await("SIGKILL"); !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return nil
}

func (a *Agent) await(signal string) error {
	select {
	case err := <-a.exited:
		a.exited <- nil
		if err != nil {
			return fmt.Errorf("the agent ended: %w", err)
		}
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("the agent did not end within %s of %s", patience, signal), a.cmd.Process.Kill())
	}
}

// AwaitPods waits until the agent has read the manifests of exactly n pods. Each read counts for
// one call. Returns an error if the agent exits, or ctx ends, before.
func (a *Agent) AwaitPods(ctx context.Context, n int) error {
	for {
		select {
		case pods, running := <-a.manifests:
			if !running {
				return errors.New("the agent ended:\n" + a.Log())
			}
			if pods == n {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("await the manifests of %d pods: %w", n, ctx.Err())
		}
	}
}

// Await returns the first decision with one of the verbs. Returns an error if the agent exits,
// or ctx ends, before.
func (a *Agent) Await(ctx context.Context, verbs ...agent.Verb) (*agent.Decision, error) {
	var others strings.Builder
	for {
		select {
		case d, running := <-a.Decisions:
			if !running {
				return nil, errors.New("the agent ended:\n" + a.Log())
			}
			for _, v := range verbs {
				if d.Decision == v {
					return &d, nil
				}
			}
			fmt.Fprintf(&others, "%s %s %s: %s %v\n", d.Time.Format(time.TimeOnly+".000"), d.Decision, d.Pod, d.Reason, d.Failed)
		case <-ctx.Done():
			return nil, fmt.Errorf("await %v: %w; decided was\n%s; the agent's log:\n%s", verbs, ctx.Err(), others.String(), a.Log())
		}
	}
}
