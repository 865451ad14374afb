package kill

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// list reads the PIDs of the pod and everything below it, sorted. Directories that vanish meanwhile
// had no processes. An incomplete listing contains the PIDs found, and the reason in partial.
func (a *attempt) list(into *[]int) error {
	w := a.w
	*into, w.invisible = (*into)[:0], 0
	w.partial = a.walk(a.members, func(dir int) error { return a.procs(dir, into) })
	slices.Sort(*into)
	zeros, _ := slices.BinarySearch(*into, 1) // members of foreign PID namespaces read as 0
	w.invisible = zeros
	*into = (*into)[zeros:]
	if w.partial != nil && len(*into)+zeros == 0 && a.k.mounts.version == cgroup.V1 {
		return a.failed(fmt.Errorf("list the processes of %s: %w", a.target.Path, w.partial))
	}
	if err := a.removeExempt(into); err != nil {
		return a.failed(fmt.Errorf("list the exempt processes of %s: %w", a.target.Path, err))
	}
	if len(*into) == 0 && a.k.mounts.blind {
		w.invisible = a.unlisted()
	}
	return nil
}

// Ended reports whether no process of the pod remains except the exempt ones. An unknown state
// after 20 ms counts as not ended. On v2 it reads cgroup.events; on v1 it lists the pod up to the
// first process. It changes nothing. No immediate kill may be in progress except continued ones.
func (k *Killer) Ended(t Target) bool {
	if k.continued.find(t) != nil {
		return false
	}
	a, err := k.begin(k.idleWorkspace(), t)
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	defer a.end()
	return !a.anyLeft()
}

// endedTime bounds the check whether a pod has ended.
const endedTime = 20 * time.Millisecond

// anyLeftByEvents is [attempt.anyLeft] by the events of v2, without a walk: a pod's containers may
// have any number of cgroups below them. Beside exempt directories it also lists the pod's own
// directory, which has processes only if no controller is enabled below it.
func (a *attempt) anyLeftByEvents() (left, known bool) {
	if len(a.w.exemptDirs) == 0 {
		return a.podPopulated()
	}
	a.w.pids = a.w.pids[:0]
	if err := a.procs(a.members, &a.w.pids); err != nil {
		return false, false
	}
	populated, known := a.populatedNotExempt()
	return len(a.w.pids) > 0 || populated, known
}

// anyLeft reports whether a process that is not exempt remains, or the state is unknown in time. It
// ends with the first one found.
func (a *attempt) anyLeft() bool {
	w := a.w
	if a.k.mounts.version == cgroup.V2 {
		if left, known := a.anyLeftByEvents(); known {
			return left
		}
	}
	a.listUntil = a.begun.Add(endedTime)
	if a.listExempt() == nil {
		w.pids = w.pids[:0]
		err := a.walk(a.members, func(dir int) error {
			from := len(w.pids)
			if err := a.procs(dir, &w.pids); err != nil {
				return err
			}
			for _, pid := range w.pids[from:] {
				if pid > 0 && !listed(w.exemptPIDs, pid) {
					return errFound
				}
			}
			return nil
		})
		if err != nil {
			return true
		}
	}
	return a.list(&w.pids) != nil || !a.empty()
}

// unlisted counts the tasks of a pod with an empty listing. v1 omits members of foreign PID
// namespaces, so an empty list counts only in the host's namespace. Zombies count too. If the count
// is unavailable, it returns 1: unknown is not empty.
func (a *attempt) unlisted() int {
	if a.pids < 0 {
		return 1
	}
	fd, err := openat(a.pids, namePidsCurrent, unix.O_RDONLY)
	if gone(err) {
		return 0
	}
	if err != nil {
		return 1
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, a.w.text)
	if gone(err) {
		return 0
	}
	if err != nil {
		return 1
	}
	var room [4]int
	var number pidReader
	count, err := number.feed(room[:0], a.w.text[:n])
	if err != nil || len(count) != 1 {
		return 1
	}
	return count[0]
}

// procs appends the processes of one directory. A threaded cgroup of v2 has none of its own
// (EOPNOTSUPP): they are listed in its domain.
func (a *attempt) procs(dir int, into *[]int) error {
	fd, err := openat(dir, nameProcs, unix.O_RDONLY)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cgroup.procs: %w", err)
	}
	defer unix.Close(fd)
	var numbers pidReader
	for {
		n, err := unix.Read(fd, a.w.text)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case gone(err), errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case err != nil:
			return fmt.Errorf("read cgroup.procs: %w", err)
		case n == 0:
			*into, err = numbers.finish(*into)
			return err
		}
		if *into, err = numbers.feed(*into, a.w.text[:n]); err != nil {
			return err
		}
	}
}

// empty reports whether the last listing found no process. On v2 cgroup.events decides: it counts
// processes that are no longer listed but have not exited, and those in directories that the
// listing did not reach.
func (a *attempt) empty() bool {
	if len(a.w.pids) > 0 || a.w.invisible > 0 {
		return false
	}
	if populated, known := a.populated(); known {
		return !populated
	}
	return a.w.partial == nil
}

// populated is [attempt.podPopulated] without the exempt directories: whether a process remains
// that the kill must end.
func (a *attempt) populated() (populated, known bool) {
	switch {
	case a.k.mounts.version == cgroup.V1:
		return false, false
	case a.exempting:
		return a.populatedNotExempt()
	}
	return a.podPopulated()
}

// podPopulated reads the pod's own cgroup.events of v2, which counts exempt processes, too. The read
// also makes a later poll wait for the next change.
func (a *attempt) podPopulated() (populated, known bool) {
	if a.events < 0 {
		return false, false
	}
	return a.readPopulated(a.events)
}

func (a *attempt) readPopulated(events int) (populated, known bool) {
	n, err := unix.Pread(events, a.w.text, 0)
	if err != nil {
		return false, gone(err) // removed, therefore empty
	}
	return parsePopulated(a.w.text[:n])
}

// refuse returns an error if the members include a process that must never be signalled.
func (a *attempt) refuse() error {
	pids := a.w.pids
	if a.k.mounts.oneByOne && len(pids) == 0 && a.w.invisible > 0 && !a.signalledAny {
		a.result.Invisible = a.w.invisible
		return a.failed(fmt.Errorf("%d processes or tasks: %w", a.w.invisible, ErrNotVisible))
	}
	for _, forbidden := range [...]int{1, os.Getpid()} {
		if listed(pids, forbidden) {
			return a.failed(fmt.Errorf("%w: %s holds process %d, which is this program or PID 1", ErrNotPod, a.target.Path, forbidden))
		}
	}
	return nil
}
