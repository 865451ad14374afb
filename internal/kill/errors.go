package kill

import (
	"errors"
	"fmt"
	"strings"
)

// What went wrong, for errors.Is.
var (
	// ErrGone says that the pod has no cgroup any more. Nothing was signalled,
	// and nothing is left to do: most callers count it as success.
	ErrGone = errors.New("the pod's cgroup is gone")
	// ErrNotPod says that the directory is not that pod's, or holds what must
	// not be killed. Nothing was signalled.
	ErrNotPod = errors.New("not the pod's cgroup")
	// ErrChanged says that another directory has taken the place of the observed
	// one. Nothing was signalled. Observe again.
	ErrChanged = errors.New("the pod's cgroup is another one than was observed")
	// ErrNotVisible says that processes of the pod live in a PID namespace this
	// process can not see into, and could not be signalled.
	ErrNotVisible = errors.New("processes of the pod are in a foreign PID namespace: run with hostPID: true")
	// ErrTimeout says that processes were left when the context ended. They have
	// got their signal, unless the context had ended before. See [TimeoutError].
	ErrTimeout = errors.New("processes of the pod are left")
	// ErrBusy says that this Killer is at such a kill already. Nothing was
	// signalled.
	ErrBusy = errors.New("another kill is under way")
)

// A Straggler is a process that was left. State is the letter of proc(5): D
// waits for a device or file system and dies when that answers, T is stopped,
// Z waits for its parent; 0 if it could not be read.
type Straggler struct {
	PID     int
	Command string
	State   byte
}

// TimeoutError names what was left when the context ended; it is [ErrTimeout],
// and the context's error.
type TimeoutError struct {
	UID        string
	Left       int         // processes, those of foreign PID namespaces included
	Stragglers []Straggler // the first few
	Cause      error       // the context's
}

func (e *TimeoutError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "end pod %s: %d processes left (%v)", e.UID, e.Left, e.Cause)
	for i, s := range e.Stragglers {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		state := "unknown state"
		if s.State != 0 {
			state = "state " + string(rune(s.State))
		}
		fmt.Fprintf(&b, "%sprocess %d (%s) in %s", sep, s.PID, s.Command, state)
	}
	if e.has('D') {
		b.WriteString("; state D waits for a device or file system and dies when that answers: look at /proc/PID/stack")
	}
	return b.String()
}

func (e *TimeoutError) has(state byte) bool {
	for _, s := range e.Stragglers {
		if s.State == state {
			return true
		}
	}
	return false
}

// Is makes errors.Is(err, ErrTimeout) true.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// Unwrap returns the context's error.
func (e *TimeoutError) Unwrap() error { return e.Cause }
