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

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Priorities of real-time class. The lowest ones are enough for priority over all fairly scheduled threads, and yield
// to most other real-time threads of the node.
const (
	othersPriority = 1 // of the other threads, during a kill (otherThreads)
	threadPriority = 2 // of a Thread
)

// highestNice is the niceness with the largest weight within a cgroup.
const highestNice = -20

// restTime is the minimum wait before which the thread is released. A thread that waits in a
// system call holds a processor of Go's scheduler. The runtime's monitor polls until it has
// retaken it: 18 wakeups for a wait of 25 ms, where parking takes one.
const restTime = 20 * time.Millisecond

// A released thread returns to the loop only after another thread of the Go runtime, without the
// class, got a processor. After two wakes within boundTime that were late by lateWake the thread is not
// released for boundTime: on a busy node the wakeups above are the price of punctual checks. A single
// late wake also occurs on an idle virtual machine. A wake before the time of the check does not show
// how late it is.
const (
	lateWake  = 5 * time.Millisecond
	boundTime = time.Minute
)

// Thread is the real-time thread for checks, decisions and kills. During a check, while memory falls,
// and for boundTime after late wakes the loop's goroutine alone runs on it, in the class SCHED_RR (sched(7)), which counts
// across cgroups. It gets a processor at once, however busy the node is. It does so little that
// no other process misses the time, and its children do not inherit the class. The agent's other
// threads have the class only during a kill ([otherThreads]).
type Thread struct {
	realtime, ordinary *unix.SchedAttr // nil: not permitted
	locked             bool
	late, boundUntil   time.Time // the last late wake; the end of the time after two of them
}

// TakeThread tests the permission for the real-time class. A released thread has the niceness of
// its caller. Returns an error without the permission, along with a usable Thread.
func TakeThread() (*Thread, error) {
	t := &Thread{}
	t.realtime = &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: threadPriority, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
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
		return t, fmt.Errorf("set SCHED_RR for the checking thread: %w", err)
	}
	return t, nil
}

// RaisePriority sets the highest niceness for all threads of the process, present and future. It counts
// within the agent's own cgroup. Returns an error without the permission.
func RaisePriority() error {
	ids, err := threadIDs()
	for _, id := range ids {
		err = errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, id, highestNice))
	}
	if err != nil {
		return fmt.Errorf("niceness %d: %w", highestNice, err)
	}
	return nil
}

// threadIDs lists the threads of the process. Along with an error it returns those listed before it.
func threadIDs() (ids []int, err error) {
	tasks, err := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Hurry switches to the real-time class, before a check.
func (t *Thread) Hurry() {
	if t == nil || t.locked || t.realtime == nil {
		return
	}
	runtime.LockOSThread()
	t.locked = true
	setClass(t.realtime)
}

// wait waits on the thread until the next check, with its class while processes exit. A long wait
// releases the thread, unless wakes from such waits were late.
func (t *Thread) wait(on Notifier, next time.Time, exiting bool) signals.Wakes {
	now := time.Now()
	rest := !exiting && next.Sub(now) >= restTime && (t == nil || !now.Before(t.boundUntil))
	if rest {
		t.Rest()
	}
	woken := on.Wait(next, rest)
	if now := time.Now(); rest && t != nil && t.realtime != nil && now.Sub(next) >= lateWake {
		if now.Sub(t.late) < boundTime {
			t.boundUntil = now.Add(boundTime)
		}
		t.late = now
	}
	t.Hurry()
	return woken
}

// Rest releases the thread, before a long wait.
func (t *Thread) Rest() {
	if t == nil || !t.locked {
		return
	}
	setClass(t.ordinary)
	t.locked = false
	runtime.UnlockOSThread()
}

// ahead returns another Thread with priority over this one, for checks while this one is busy.
func (t *Thread) ahead() *Thread {
	if t == nil || t.realtime == nil {
		return nil
	}
	first := *t.realtime
	first.Priority++
	return &Thread{realtime: &first, ordinary: t.ordinary}
}

// setClass calls sched_setattr(2) for this thread, without Go's scheduler. The scheduler would
// wake its monitor, which costs more than the call. The call returns within microseconds and
// never sleeps. The class was permitted before.
func setClass(class *unix.SchedAttr) {
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(class)), 0)
}
