package agent

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// lowestRealtime is enough to come before everything that is scheduled by
// fairness, and behind whatever else on the node is real time.
const lowestRealtime = 1

// highestNice is the most that a thread can weigh among those of its cgroup.
const highestNice = -20

// TakeThread makes the calling goroutine the only one on its thread, and has
// that thread run as soon as it can, however busy the processors are: by the
// real-time class (sched(7), SCHED_RR), which counts across cgroups, else by the
// highest niceness, which counts within the agent's own. The error says what can
// not be had, and what is used instead.
//
// Look, decision and kill all happen on this thread, and it does so little that
// no other process misses the time: a look takes tens of microseconds. What the
// thread starts does not inherit it.
func TakeThread() error {
	runtime.LockOSThread()
	err := unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: lowestRealtime, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("SCHED_RR for the looking thread: %w", err)
	if niced := unix.Setpriority(unix.PRIO_PROCESS, 0, highestNice); niced != nil {
		return fmt.Errorf("%w; niceness %d: %w; the ordinary class is used", err, highestNice, niced)
	}
	return fmt.Errorf("%w; niceness %d is used", err, highestNice)
}
