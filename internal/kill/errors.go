package kill

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a kill, for errors.Is.
var (
	// ErrGone means that the pod has no cgroup any more. No signal was sent, and none is needed:
	// most callers count it as success.
	ErrGone = errors.New("the pod's cgroup is gone")
	// ErrNotPod means that the directory is not that of the pod, or holds a process that must not
	// be killed. No signal was sent.
	ErrNotPod = errors.New("not the pod's cgroup")
	// ErrChanged means that another directory has replaced the observed one. No signal was sent.
	// Observe again.
	ErrChanged = errors.New("the pod's cgroup is another one than was observed")
	// ErrNotVisible means that processes of the pod are in a PID namespace invisible to this
	// process, and could not be signalled.
	ErrNotVisible = errors.New("processes of the pod are in a foreign PID namespace: run with hostPID: true")
	// ErrTimeout means that processes remained when the context ended, or when a signal could end none
	// of them. They have received their signal, unless the context had ended before. See [TimeoutError].
	ErrTimeout = errors.New("processes of the pod are left")
	// ErrBusy means that this Killer is performing such a kill already. No signal was sent.
	ErrBusy = errors.New("another kill is under way")
)

// Straggler is a remaining process. State is the letter of proc(5): D waits for a device or file
// system and dies when that answers, T is stopped, Z waits for its parent; 0 if it could not be
// read.
type Straggler struct {
	PID     int
	Command string
	State   byte
}

// TimeoutError describes the processes that remained when the context ended; it is [ErrTimeout],
// and the context's error.
type TimeoutError struct {
	UID        string
	Left       int         // processes, including those of foreign PID namespaces
	Stragglers []Straggler // at most 5
	Cause      error       // the context's error
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

// Is reports whether target is ErrTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrTimeout }

// Unwrap returns the context's error.
func (e *TimeoutError) Unwrap() error { return e.Cause }
