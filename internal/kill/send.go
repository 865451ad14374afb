package kill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// killAtOnce writes cgroup.kill: the kernel ends every process of the pod, including processes
// forked meanwhile and those of foreign PID namespaces. It reports false without cgroup.kill (v1, or
// before Linux 5.14), in a threaded cgroup, and on a read-only cgroup file system with processes that
// can be signalled.
func (a *attempt) killAtOnce() (killed bool, err error) {
	if a.k.mounts.oneByOne {
		return false, nil
	}
	a.openPidfds(a.w.pids) // to release their memory and wait for them, not to signal
	unlisted := a.unlistedPopulated()
	if a.exempting {
		killed, err = a.forEachNotExempt(killOne)
	} else {
		killed, err = killOne(a.members)
	}
	if err == nil && killed {
		a.countAll()
		if unlisted && !a.unlistedKilled {
			a.unlistedKilled = true
			a.result.Signalled++
			a.result.ToSignal = time.Since(a.begun)
		}
		return true, nil
	}
	a.closePidfds()
	if err != nil && a.w.invisible > 0 { // no other way to reach them
		return false, a.failed(fmt.Errorf("write cgroup.kill of %s: %w: the cgroup filesystem must be writable", a.target.Path, err))
	}
	return false, nil
}

// unlistedPopulated reports whether the pod has processes although an incomplete listing found
// none: cgroup.kill ends an unknown number of them, which counts as one for the whole kill.
func (a *attempt) unlistedPopulated() bool {
	if a.w.partial == nil || len(a.w.pids)+a.w.invisible > 0 {
		return false
	}
	populated, known := a.populated()
	return populated && known
}

// killOne writes cgroup.kill of a directory, and reports whether it succeeded.
func killOne(dir int) (bool, error) {
	fd, err := openat(dir, nameKill, unix.O_WRONLY)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, one)
	if gone(err) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	return err == nil, err
}

// signalAgain is the interval in rounds at which all processes are signalled, including those
// signalled before: a PID may be another process by then.
const signalAgain = 8

// signalAll sends a signal to the listed processes without one, in batches of pidfds; the last
// batch stays open. A process that left the pod receives none. If the kill is late, it ends after
// the first batch, and the next round continues.
func (a *attempt) signalAll(ctx context.Context, sig unix.Signal) error {
	w := a.w
	a.result.Invisible = max(a.result.Invisible, w.invisible)
	w.recipients = w.recipients[:0]
	for _, pid := range w.pids {
		if a.result.Rounds%signalAgain == 0 || !listed(w.signalledPIDs, pid) {
			w.recipients = append(w.recipients, pid)
		}
	}
	a.incomplete = w.partial != nil
	sent, refused, err := a.signalRecipients(ctx, sig)
	if err != nil {
		return err
	}
	if len(w.recipients) == 0 { // to wait for them, and to release their memory
		_, err = a.openPidfds(w.pids)
	}
	if sent == 0 && refused != nil {
		return a.failed(fmt.Errorf("signal its processes: %w: the capability CAP_KILL is needed", refused))
	}
	return err
}

func (a *attempt) signalRecipients(ctx context.Context, sig unix.Signal) (sent int, refused, err error) {
	w := a.w
	signalledEarlier := len(w.signalledPIDs) // signalBatch appends after them
	for remaining := w.recipients; len(remaining) > 0; {
		if len(remaining) < len(w.recipients) && a.late(ctx) {
			a.incomplete = true
			break
		}
		a.closePidfds()
		opened, err := a.openPidfds(remaining)
		if err != nil {
			return sent, refused, err
		}
		if w.between != nil {
			w.between()
		}
		if err := a.list(&w.again); err != nil {
			return sent, refused, err
		}
		n, err := a.signalBatch(ctx, remaining[:opened], sig, w.signalledPIDs[:signalledEarlier])
		sent += n
		refused = cmp.Or(refused, err)
		remaining = remaining[opened:]
	}
	w.signalledPIDs = slices.DeleteFunc(w.signalledPIDs, func(pid int) bool { return !listed(w.pids, pid) })
	slices.Sort(w.signalledPIDs)
	w.signalledPIDs = slices.Compact(w.signalledPIDs)
	return sent, refused, nil
}

// openPidfds opens pidfds for the first PIDs and returns their number. It is less than requested if
// the batch is full or the limit of open files is reached. An exited process has a slot without a
// file.
func (a *attempt) openPidfds(pids []int) (opened int, err error) {
	w := a.w
	for _, pid := range pids {
		if opened == batch {
			break
		}
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
		case errors.Is(err, unix.EMFILE) && opened > 0, errors.Is(err, unix.ENFILE) && opened > 0:
			return opened, nil
		case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
			fd = -1
		default:
			return opened, a.failed(fmt.Errorf("open a pidfd of process %d: %w: Linux 5.3 or later is needed", pid, err))
		}
		w.poll = append(w.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		opened++
	}
	return opened, nil
}

// signalBatch signals the processes with an open pidfd that the second listing found in the pod
// again, and appends them to signalledPIDs. Those in earlier were signalled in an earlier round, and
// do not count as new. If the kill is late, the next round continues.
func (a *attempt) signalBatch(ctx context.Context, pids []int, sig unix.Signal, earlier []int) (sent int, err error) {
	for i, pid := range pids {
		if sent > 0 && i%clockEvery == 0 && a.late(ctx) {
			a.incomplete = true
			break
		}
		slot := &a.w.poll[firstPidfd+i]
		if slot.Fd < 0 {
			continue
		}
		if !listed(a.w.again, pid) {
			_ = unix.Close(int(slot.Fd))
			slot.Fd = -1
			continue
		}
		switch e := unix.PidfdSendSignal(int(slot.Fd), sig, nil, 0); {
		case e == nil:
			sent++
			a.signalledAny = true
			a.w.signalledPIDs = append(a.w.signalledPIDs, pid)
			if !listed(earlier, pid) {
				a.result.Signalled++
				a.result.ToSignal = time.Since(a.begun)
			}
		case !errors.Is(e, unix.ESRCH):
			err = e
		}
	}
	return sent, err
}

// countAll records the processes that cgroup.kill ended.
func (a *attempt) countAll() {
	a.signalledAny = true
	w, countBefore := a.w, a.result.Signalled
	for _, pid := range w.pids {
		if !listed(w.signalledPIDs, pid) {
			a.result.Signalled++
		}
	}
	if more := w.invisible - a.result.Invisible; more > 0 {
		a.result.Signalled += more
		a.result.Invisible = w.invisible
	}
	if a.result.Signalled > countBefore {
		a.result.ToSignal = time.Since(a.begun)
	}
	a.incomplete = w.partial != nil
	// The listed PIDs become the signalled ones, without a copy. Now pids has outdated content in the
	// other array; the next round lists it anew before it is read.
	w.pids, w.signalledPIDs = w.signalledPIDs, w.pids
}

// releaseMemory frees the memory of the dying processes on this thread's CPU time. process_mrelease
// (Linux 5.15) has no effect on a process that is not dying. It ends when the kill is late: if
// processes share memory, a call inspects every process of the machine.
func (a *attempt) releaseMemory(ctx context.Context) {
	if !a.k.usesMrelease {
		return
	}
	for _, slot := range a.w.poll[firstPidfd:] {
		if slot.Fd < 0 {
			continue
		}
		if a.late(ctx) {
			return
		}
		switch errno := processMrelease(int(slot.Fd)); errno {
		case 0:
			if a.result.Rounds == 1 {
				a.result.Released++
			}
		case unix.ENOSYS:
			return
		}
	}
}

func (a *attempt) closePidfds() {
	for _, slot := range a.w.poll[firstPidfd:] {
		if slot.Fd >= 0 {
			_ = unix.Close(int(slot.Fd))
		}
	}
	a.w.poll = slices.Delete(a.w.poll, firstPidfd, len(a.w.poll))
}
