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
	since     time.Time // zero: ordinary
}

// class is the class of a thread, with its priority within a real-time class.
type class struct{ policy, priority uint32 }

var ordinaryClass, raisedClass = class{unix.SCHED_NORMAL, 0}, class{unix.SCHED_RR, othersPriority}

// raise sets the class. Threads started later inherit it.
func (o *otherThreads) raise() {
	if !o.permitted || !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	changeAll(ordinaryClass, raisedClass)
}

// lower reverts raise. The threads keep their niceness.
func (o *otherThreads) lower() {
	if o.since.IsZero() {
		return
	}
	o.since = time.Time{}
	for range maxPasses {
		if changeAll(raisedClass, ordinaryClass) == 0 {
			return
		}
	}
}

// maxPasses bounds how often lower lists the threads. A thread not listed yet can start another one.
const maxPasses = 3

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
