package agentexec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Bounds of an answer.
const (
	// MaxLine is the maximum size of a line. A state of 250 pods has 60 KiB.
	MaxLine = 1 << 20
	// MaxExport is the maximum size of an export.
	MaxExport = 2 << 30
	// maxMessage is the size of the used part of the standard error.
	maxMessage = 4 << 10
	// defaultSilence is the maximum time without a part of an answer. An agent writes a state every 5 s. An export
	// begins after it has read the recording, from a disk that may be slow.
	defaultSilence = 30 * time.Second
)

// leastProgress is the size of an export from which on its silence begins anew.
const leastProgress = 32 << 10

// Errors of an answer.
var (
	errLineTooLong = fmt.Errorf("a line of the answer has more than %d bytes", MaxLine)
	errTooLarge    = fmt.Errorf("the answer has more than %d bytes", MaxExport)
	errUnfinished  = errors.New("the connection ended before the answer was complete")
)

// silentError is the error of an agent that does not answer.
type silentError struct{ after time.Duration }

func (e silentError) Error() string { return fmt.Sprintf("no answer for %s", e.after) }

// Lines runs a command of plimsoll that writes lines, and calls each with every line, without its newline. The line is
// valid until each returns. Returns the first error of each, and an error if the command fails or is silent.
func (a *Agent) Lines(ctx context.Context, args []string, each func(line []byte) error) error {
	var rest []byte
	return a.run(ctx, args, io.Discard, func(part []byte, alive func()) error {
		for {
			line, after, ended := bytes.Cut(part, []byte("\n"))
			if len(rest)+len(line) > MaxLine {
				return errLineTooLong
			}
			if !ended {
				rest = append(rest, line...)
				return nil
			}
			whole := line
			if len(rest) > 0 {
				whole = append(rest, line...)
			}
			if len(bytes.TrimSpace(whole)) > 0 {
				if err := each(whole); err != nil {
					return err
				}
				alive() // an empty line is no answer
			}
			rest, part = rest[:0], after
		}
	})
}

// Export runs a command of plimsoll recording export, and writes what it exports. Returns the number of bytes, and an error if
// the command fails or is silent, or if what was written is not all of it.
func (a *Agent) Export(ctx context.Context, args []string, out io.Writer) (written int64, err error) {
	messages := &message{}
	progress := 0
	err = a.run(ctx, append(slices.Clone(args), "--confirm"), messages, func(part []byte, alive func()) error {
		if written += int64(len(part)); written > MaxExport {
			return errTooLarge
		}
		if progress += len(part); progress >= leastProgress {
			progress = 0
			alive()
		}
		_, err := out.Write(part)
		return err
	})
	if err == nil && !confirms(messages.text(), written) {
		err = a.explain(errUnfinished, "", args)
	}
	return written, err
}

// confirmation is the last line of the standard error of an export.
var confirmation = regexp.MustCompile(`(?m)^exported ([0-9]{1,19}) bytes$`)

func confirms(text string, written int64) bool {
	found := confirmation.FindStringSubmatch(text)
	if found == nil {
		return false
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	return err == nil && n == written
}

// run runs a command of plimsoll in the agent's pod, and calls each with every part of its output; it calls alive for
// progress. The standard error is written to more too. Returns the first error of each, the cause of the context, or why the command could not run to its end.
func (a *Agent) run(ctx context.Context, args []string, more io.Writer, each func(part []byte, alive func()) error) error {
	pod, err := a.find(ctx)
	if err != nil {
		return err
	}
	silence := cmp.Or(a.Silence, defaultSilence)
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(silentError{silence}) })
	defer alarm.Stop()
	due := time.Now().Add(silence)
	output := &sink{failed: cancel, each: func(part []byte) error {
		alarm.Stop() // the time in which an answer is used is not the agent's
		used := time.Now()
		err := each(part, func() { used = time.Now(); due = used.Add(silence) })
		due = due.Add(time.Since(used))
		alarm.Reset(time.Until(due))
		return err
	}}
	messages := &message{}
	command := append([]string{program}, args...)
	err = a.Executor.Exec(running, a.Namespace, pod, container, command, output, io.MultiWriter(messages, more))
	output.close() // a connection that was given up may still write
	switch cause := context.Cause(running); {
	case output.fault() != nil:
		return a.explain(output.fault(), "", args)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case cause != nil:
		return a.explain(cause, "", args)
	case err != nil:
		return a.explain(err, messages.text(), args)
	}
	return nil
}

// sink receives the standard output of a command. After an error or its end it takes nothing more.
type sink struct {
	each   func(part []byte) error
	failed func(error)

	mu     sync.Mutex
	err    error
	closed bool
}

// Write implements io.Writer.
func (s *sink) Write(part []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil {
		return 0, errClosed
	}
	if s.err = s.each(part); s.err != nil {
		s.failed(s.err)
		return 0, s.err
	}
	return len(part), nil
}

var errClosed = errors.New("the output is closed")

func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sink) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// message stores the end of a standard error.
type message struct {
	mu   sync.Mutex
	last []byte
}

// Write implements io.Writer.
func (m *message) Write(part []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(part)
	part = part[max(n-maxMessage, 0):]
	if m.last = append(m.last, part...); len(m.last) > maxMessage {
		m.last = append(m.last[:0], m.last[len(m.last)-maxMessage:]...)
	}
	return n, nil
}

func (m *message) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.TrimSpace(string(m.last))
}

// Exit statuses of plimsoll, and those by which a runtime reports a program that does not exist.
const (
	exitFailed  = 1
	exitInvalid = 2
	noProgram   = 126
	noFile      = 127
)

// explain returns the error of a command with its remedy.
func (a *Agent) explain(err error, message string, args []string) error {
	name := args[0]
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		name += " " + args[1]
	}
	what := fmt.Sprintf("run plimsoll %s on node %s", name, a.Node)
	message = signals.PrintableText(strings.Join(strings.Fields(message), " "), maxMessage)
	var exit interface{ ExitStatus() int }
	status := 0
	if errors.As(err, &exit) {
		status = exit.ExitStatus()
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: your account needs the right to create and get pods/exec in the namespace %s", what, err, a.Namespace)
	case errors.As(err, new(silentError)):
		return fmt.Errorf("%s: %w: the node or its agent may hang. See kubectl plimsoll status %s", what, err, a.Node)
	case errors.Is(err, errUnfinished):
		return fmt.Errorf("%s: %w: run it again", what, err)
	case status == exitInvalid && strings.Contains(message, "unknown command"), status == exitInvalid && strings.Contains(message, "unknown flag"):
		return fmt.Errorf("%s: the agent is of a version without this command: %s. kubectl plimsoll version shows the versions. Update the agents", what, message)
	case status == exitFailed && strings.Contains(message, "no such file or directory"):
		return fmt.Errorf("%s: the agent has no recording in that directory: %s. If recordingDir of its configuration is another one, give --recording-dir. If it is empty, the agent does not record", what, message)
	case status == noProgram, status == noFile:
		return fmt.Errorf("%s: the image of the agent has no %s (exit status %d): use an image of this project", what, program, status)
	case status != 0:
		return fmt.Errorf("%s: exit status %d: %s", what, status, cmp.Or(message, "without a message"))
	}
	return fmt.Errorf("%s: %w", what, err)
}
