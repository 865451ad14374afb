package agent

import (
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRaised bounds the real-time class of the other threads. It is three times what 16,000 processes take to exit. A
// process that cannot exit does not extend it.
const maxRaised = 5 * time.Second

// otherThreads gives all ordinary threads of the process the real-time class, below the checking thread, while the
// processes of a killed pod exit. Checks need them: Go's scheduler has locks, and a garbage collection stops
// every thread. Beside 16,000 processes that exit, an ordinary thread got no processor for up to 1 s, and no check was
// made meanwhile.
type otherThreads struct {
	permitted bool
	since     time.Time // zero: ordinary
}

// raise sets the class. Threads started later inherit it.
func (o *otherThreads) raise() {
	if !o.permitted || !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	setClassOfAll(unix.SchedAttr{Policy: unix.SCHED_NORMAL}, unix.SCHED_RR, othersPriority)
}

// lower reverts raise. The threads keep their niceness.
func (o *otherThreads) lower() {
	if o.since.IsZero() {
		return
	}
	o.since = time.Time{}
	raised := unix.SchedAttr{Policy: unix.SCHED_RR, Priority: othersPriority}
	for range maxPasses {
		if setClassOfAll(raised, unix.SCHED_NORMAL, 0) == 0 {
			return
		}
	}
}

// maxPasses bounds how often lower lists the threads. A thread not listed yet can start another one.
const maxPasses = 3

// setClassOfAll sets the class of all threads of the process that have another given class. It returns their number.
func setClassOfAll(from unix.SchedAttr, policy, priority uint32) (changed int) {
	tasks, _ := os.ReadDir("/proc/self/task") // what is listed up to an error is changed
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		was, err := unix.SchedGetAttr(id, 0)
		if err != nil || was.Policy != from.Policy || was.Priority != from.Priority {
			continue
		}
		// A thread may have ended since, and its ID be another process's.
		if unix.Tgkill(os.Getpid(), id, 0) == nil && setScheduler(id, policy, priority) {
			changed++
		}
	}
	return changed
}

// setScheduler calls sched_setscheduler(2), which keeps the niceness. It reports success.
func setScheduler(id int, policy, priority uint32) bool {
	param := int32(priority) // struct sched_param
	_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(id), uintptr(policy), uintptr(unsafe.Pointer(&param)))
	return errno == 0
}
