package kill

import (
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Sizes of the memory of a kill. A pod that exceeds them costs allocations, or a further round.
const (
	batch        = 1024 // pidfds open at a time
	expectPIDs   = 8192
	expectSpares = 64
	textSize     = 16 << 10
	direntsSize  = 2 << 10 // for each level of a walk
	pathSize     = 4096    // PATH_MAX
)

// workspace is the memory of one kill, allocated and touched beforehand.
type workspace struct {
	busy    atomic.Bool
	attempt attempt

	path   []byte
	text   []byte
	levels [maxDepth + 1]level // of the current walk
	spares []spare

	pids      []int // listed in this round, sorted
	again     []int // listed after the pidfds were opened, sorted
	spared    []int // in the spared directories, sorted
	fresh     []int // to be signalled in this round, sorted
	before    []int // listed in this round or the last one, and signalled, sorted
	invisible int   // in the last listing
	partial   error // why the last listing may be incomplete, nil if it is complete

	// poll[0] wakes the wait, poll[1] is cgroup.events, the rest are pidfds.
	poll []unix.PollFd
	wake int // eventfd

	// between is called between opening pidfds and signalling; tests only.
	between func()
}

const firstPidfd = 2

func newWorkspace() (*workspace, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	w := &workspace{
		path: touched[byte](pathSize), text: touched[byte](textSize), spares: touched[spare](expectSpares)[:0],
		poll: touched[unix.PollFd](firstPidfd + batch)[:firstPidfd], wake: wake,
	}
	for _, list := range [...]*[]int{&w.pids, &w.again, &w.spared, &w.fresh, &w.before} {
		*list = touched[int](expectPIDs)[:0]
	}
	for i := range w.levels {
		w.levels[i].buffer = touched[byte](direntsSize)
	}
	return w, expandFDTable(wake)
}

// touched returns a slice with resident pages: a new one has none until it is written to, and a
// kill must not request memory.
func touched[E any](n int) []E {
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
