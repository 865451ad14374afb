package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lowestRealtime is enough to come before everything that is scheduled by
// fairness, and behind whatever else on the node is real time.
const lowestRealtime = 1

// highestNice is the most that a thread can weigh among those of its cgroup.
const highestNice = -20

// restTime is a wait before which the thread is given back. A thread that waits
// in a system call holds a processor of Go's scheduler, whose monitor polls until
// it has taken it: 18 wake-ups for a wait of 25 ms, where parking takes one.
const restTime = 20 * time.Millisecond

// A Thread is who looks, decides and kills: while memory falls and during a look,
// the loop's goroutine alone on a thread that runs as soon as it can, however
// busy the processors are, by the real-time class (sched(7), SCHED_RR), which
// counts across cgroups. It does so little that no other process misses the
// time, and what it starts does not inherit the class. Nothing else of the agent
// is real time.
type Thread struct {
	realtime, ordinary *unix.SchedAttr // nil: not granted
	held               bool
}

// TakeThread finds out what the agent is granted. The threads that there are, and
// those that come, get the highest niceness, which counts within the agent's own
// cgroup. The error says what can not be had.
func TakeThread() (*Thread, error) {
	t := &Thread{}
	niced := nice()
	t.realtime = &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: lowestRealtime, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ordinary, err := unix.SchedGetAttr(0, 0)
	if err == nil {
		ordinary.Size = unix.SizeofSchedAttr
		t.ordinary = ordinary
		err = unix.SchedSetAttr(0, t.realtime, 0)
	}
	if err == nil {
		err = unix.SchedSetAttr(0, t.ordinary, 0)
	}
	if err != nil {
		t.realtime = nil
		return t, errors.Join(fmt.Errorf("SCHED_RR for the looking thread: %w", err), niced)
	}
	return t, niced
}

// nice has all threads weigh most.
func nice() error {
	tasks, err := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		id, convErr := strconv.Atoi(task.Name())
		if convErr == nil {
			err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, id, highestNice))
		}
	}
	if err != nil {
		return fmt.Errorf("niceness %d: %w", highestNice, err)
	}
	return nil
}

// Hurry takes the thread, before a look.
func (t *Thread) Hurry() {
	if t == nil || t.held || t.realtime == nil {
		return
	}
	runtime.LockOSThread()
	t.held = true
	setClass(t.realtime)
}

// Rest gives it back, before a long wait.
func (t *Thread) Rest() {
	if t == nil || !t.held {
		return
	}
	setClass(t.ordinary)
	t.held = false
	runtime.UnlockOSThread()
}

// ahead is another thread, which comes before this one: for a look while this one is
// busy.
func (t *Thread) ahead() *Thread {
	if t == nil || t.realtime == nil {
		return nil
	}
	first := *t.realtime
	first.Priority++
	return &Thread{realtime: &first, ordinary: t.ordinary}
}

// setClass is sched_setattr(2) of this thread, raw: Go's scheduler is not told of
// it. Being told, it wakes its monitor, which costs more than the call; this one
// returns within microseconds and never sleeps. What it sets was granted before.
func setClass(class *unix.SchedAttr) {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(class)), 0)
}
