package kill

import (
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Sizes of the memory of a kill. A pod that exceeds them costs allocations, or a further round.
const (
	batch            = 1024 // pidfds open at a time
	expectPIDs       = 16384
	expectExemptDirs = 64
	textSize         = 16 << 10
	direntsSize      = 2 << 10 // for each level of a walk
	pathSize         = 4096    // PATH_MAX
)

// workspace is the memory of one kill, allocated and prefaulted by New.
type workspace struct {
	busy    atomic.Bool
	attempt attempt

	path       []byte
	text       []byte
	levels     [maxDepth + 1]level // of the current walk
	exemptDirs []exemptDir

	pids          []int // listed in this round, sorted
	again         []int // listed after the pidfds were opened, sorted
	exemptPIDs    []int // in the exempt directories, sorted
	recipients    []int // to be signalled in this round, sorted
	signalledPIDs []int // signalled, and listed in this round or the last one, sorted
	invisible     int   // in the last listing
	partial       error // why the last listing may be incomplete, nil if it is complete

	// poll has the eventfd in wakeSlot, cgroup.events in eventsSlot, and pidfds from firstPidfd on.
	poll []unix.PollFd
	wake int // eventfd

	// between is called between opening pidfds and signalling; tests only.
	between func()
}

// Slots of poll.
const (
	wakeSlot   = 0
	eventsSlot = 1
	firstPidfd = 2
)

func newWorkspace() (*workspace, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	w := &workspace{
		path: prefaulted[byte](pathSize), text: prefaulted[byte](textSize), exemptDirs: prefaulted[exemptDir](expectExemptDirs)[:0],
		poll: prefaulted[unix.PollFd](firstPidfd + batch)[:firstPidfd], wake: wake,
	}
	for _, list := range [...]*[]int{&w.pids, &w.again, &w.exemptPIDs, &w.recipients, &w.signalledPIDs} {
		*list = prefaulted[int](expectPIDs)[:0]
	}
	for i := range w.levels {
		w.levels[i].buffer = prefaulted[byte](direntsSize)
	}
	return w, expandFDTable(wake)
}

// prefaulted returns a slice with resident pages: a new one has none until it is written to, and a
// kill must not request memory.
func prefaulted[E any](n int) []E {
	s := make([]E, n)
	var zero E
	for i := range s {
		s[i] = zero
	}
	return s
}

// expandFDTable lets the kernel allocate the table of open files for a whole batch now; it never
// shrinks. A lower limit of open files only makes batches smaller.
func expandFDTable(fd int) error {
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 2*batch)
	if err != nil {
		return nil // beyond the limit: batches end at the error of pidfd_open
	}
	return unix.Close(high)
}

func (w *workspace) close() {
	if w != nil {
		_ = unix.Close(w.wake)
	}
}

// listed reports whether the sorted list contains the PID.
func listed(list []int, pid int) bool {
	_, found := slices.BinarySearch(list, pid)
	return found
}
