package agent

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// otherThreads gives all ordinary threads of the process the class of the checking thread while the processes of a
// killed pod exit. Checks need them: Go's scheduler has locks, and a garbage collection stops every thread. Beside
// 16,000 processes that exit, an ordinary thread got no processor for up to 1 s, and no check was made meanwhile.
type otherThreads struct {
	realtime, ordinary *unix.SchedAttr // nil: not permitted
	raised             []int           // thread IDs
}

// raise sets the class. Threads that have a real-time class keep theirs.
func (o *otherThreads) raise() {
	if o.realtime == nil {
		return
	}
	tasks, _ := os.ReadDir("/proc/self/task") // what is listed up to an error is raised
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if was, err := unix.SchedGetAttr(id, 0); err == nil && was.Policy == unix.SCHED_NORMAL && unix.SchedSetAttr(id, o.realtime, 0) == nil {
			o.raised = append(o.raised, id)
		}
	}
}

// lower reverts raise.
func (o *otherThreads) lower() {
	for _, id := range o.raised {
		if unix.Tgkill(os.Getpid(), id, 0) == nil { // else it has ended, and the ID may be another process's
			_ = unix.SchedSetAttr(id, o.ordinary, 0)
		}
	}
	o.raised = o.raised[:0]
}
