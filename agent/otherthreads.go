package agent

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRaised bounds the real-time class of the other threads. It is three times what 16,000 processes take to exit. Neither
// a process that cannot exit nor a kill under way extends it.
const maxRaised = 5 * time.Second

// otherThreads gives all ordinary threads of the process the real-time class, below the checking thread, during an
// immediate kill and the wait for its processes. Checks need them: Go's scheduler has locks, and a garbage collection stops
// every thread. Beside 16,000 processes that exit, an ordinary thread got no processor for up to 1 s, and no check was
// made meanwhile.
type otherThreads struct {
	permitted bool
	since     time.Time // of the raise; zero: ordinary
	lowered   time.Time // the last change back; zero: no thread can have the class any more
	listed    time.Time // when threads were last changed back, or none was found
}

// class is the class of a thread, with its priority within a real-time class.
type class struct{ policy, priority uint32 }

var ordinaryClass, raisedClass = class{unix.SCHED_NORMAL, 0}, class{unix.SCHED_RR, othersPriority}

// raise sets the class. Threads started later inherit it.
func (o *otherThreads) raise() {
	if !o.permitted || !o.since.IsZero() {
		return
	}
	o.since, o.lowered = time.Now(), time.Time{}
	changeAll(ordinaryClass, raisedClass)
}

// update reverts raise when no process exits any more, or after [maxRaised]. The threads keep their niceness.
func (o *otherThreads) update(exiting bool, now time.Time) {
	raised := !o.since.IsZero()
	switch {
	case raised && exiting && now.Sub(o.since) < maxRaised:
		return
	case raised:
		o.since, o.lowered = time.Time{}, now
	case o.lowered.IsZero() || now.Sub(o.listed) < latePace:
		return
	}
	o.listed = now
	if changeAll(raisedClass, ordinaryClass) > 0 {
		o.lowered = now
	} else if now.Sub(o.lowered) >= lateThreads {
		o.lowered = time.Time{}
	}
}

// Threads are listed once more at the first check after every latePace, until lateThreads after the last change. A
// thread inherits the class at the beginning of clone(2), and is listed from its end on. In between, its parent can
// wait for a processor.
const (
	latePace    = time.Second
	lateThreads = 10 * time.Second
)

// changeAll gives all threads of a class another one, and returns their number.
func changeAll(from, to class) (changed int) {
	ids, _ := threadIDs() // what is listed up to an error is changed
	for _, id := range ids {
		was, err := unix.SchedGetAttr(id, 0)
		if err != nil || (class{was.Policy, was.Priority}) != from {
			continue
		}
		// A thread may have ended since, and its ID be another process's.
		if unix.Tgkill(os.Getpid(), id, 0) == nil && setScheduler(id, to) {
			changed++
		}
	}
	return changed
}

// setScheduler calls sched_setscheduler(2), which keeps the niceness. It reports success.
func setScheduler(id int, to class) bool {
	param := int32(to.priority) // struct sched_param
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(id), uintptr(to.policy), uintptr(unsafe.Pointer(&param)))
	return errno == 0
}
