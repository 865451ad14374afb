package kill

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one wait for exits.
const (
	// maxWait is the time after which the pod is listed again although a process has not exited: a
	// runtime may have added new ones, and ctx may have ended.
	maxWait = 100 * time.Millisecond
	// minWait is the pause of a kill if there is no event to wait for: v1 does not report when a dying
	// task leaves its cgroup.
	minWait = time.Millisecond
	// namedStragglers is the number of processes that a timeout describes.
	namedStragglers = 5
)

// awaitExits waits until the processes with an open pidfd have exited and released their memory, or
// v2 reports a change, or it is time to list again.
func (a *attempt) awaitExits(ctx context.Context) {
	w := a.w
	w.poll[wakeSlot] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	if a.wakeable {
		w.poll[wakeSlot].Fd = int32(w.wake)
	}
	w.poll[eventsSlot] = unix.PollFd{Fd: int32(a.events), Events: unix.POLLPRI}
	until := time.Now().Add(a.k.maxWait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	if !w.waiting() && (a.events < 0 || !a.stillPopulated()) {
		_, _ = unix.Poll(w.poll[:wakeSlot+1], int(a.pause.Milliseconds()))
		return
	}
	for left := time.Until(until); left > 0 && !a.late(ctx); left = time.Until(until) {
		_, err := unix.Poll(w.poll, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return
		}
		if w.poll[wakeSlot].Revents != 0 {
			return
		}
		changed := w.poll[eventsSlot].Revents != 0
		w.dropExited()
		switch {
		case w.waiting() && changed: // wait only for the pidfds now
			w.poll[eventsSlot].Fd = -1
		case w.waiting():
		case a.events < 0, changed, !a.stillPopulated():
			return
		default: // unknown processes remain: poll cgroup.events, which the read has rearmed
			w.poll[eventsSlot].Fd = int32(a.events)
		}
	}
}

// stillPopulated reports whether the pod's cgroup.events will change once more as it ends. Beside
// exempt processes it does not: they remain, and so the pod remains populated.
func (a *attempt) stillPopulated() bool {
	if a.exempting {
		return false
	}
	populated, _ := a.podPopulated()
	return populated
}

// waiting reports whether a process with an open pidfd has not exited.
func (w *workspace) waiting() bool {
	for _, slot := range w.poll[firstPidfd:] {
		if slot.Fd >= 0 {
			return true
		}
	}
	return false
}

func (w *workspace) dropExited() {
	for i := firstPidfd; i < len(w.poll); i++ {
		if slot := &w.poll[i]; slot.Fd >= 0 && slot.Revents != 0 {
			_ = unix.Close(int(slot.Fd))
			slot.Fd = -1
		}
	}
}

// late reports whether it is time to return. It compares the deadline with the clock: on a machine
// with thousands of runnable processes a timer fires late.
func (a *attempt) late(ctx context.Context) bool {
	if closed(a.ending) || ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// timeout returns the error that describes the remaining processes.
func (a *attempt) timeout(ctx context.Context) error {
	e := &TimeoutError{UID: a.target.UID, Left: len(a.w.pids) + a.w.invisible, Cause: cmp.Or(context.Cause(ctx), context.DeadlineExceeded)}
	for _, pid := range a.w.pids[:min(len(a.w.pids), namedStragglers)] {
		s := Straggler{PID: pid, Command: "?"}
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
			if command, state, ok := parseStat(text); ok {
				s.Command, s.State = command, state
			}
		}
		e.Stragglers = append(e.Stragglers, s)
	}
	if a.k.mounts.oneByOne && a.w.invisible > 0 {
		return fmt.Errorf("%w; they may be dead and not waited for, or %w", e, ErrNotVisible)
	}
	if a.freezer >= 0 && e.Left > 0 && a.frozenAbove() {
		return fmt.Errorf("%w; a cgroup above the pod is frozen: thaw it", e)
	}
	if e.Left == 0 && a.w.partial != nil {
		return fmt.Errorf("%w; it has processes that were not listed: %w", e, a.w.partial)
	}
	return e
}

// frozenAbove reports whether the pod is frozen although it was thawed: then a cgroup above it is.
func (a *attempt) frozenAbove() bool {
	fd, err := openat(a.freezer, nameFreezerState, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, a.w.text)
	return err == nil && n > 0 && a.w.text[0] == 'F'
}
