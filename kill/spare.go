package kill

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// mostSparing is in how many rounds that found somebody new a container is spared
// at most: whoever fights a kill is ended altogether. Who only takes long to die
// does not fight.
const mostSparing = 4

// openSpare opens the container that is spared. One that is not there is nobody.
func (a *attempt) openSpare() {
	if a.target.Spare == "" || len(a.target.Spare)+1 > len(a.w.path) {
		return
	}
	n := copy(a.w.path, a.target.Spare)
	a.w.path[n] = 0
	if fd, err := openat(a.members, &a.w.path[0], dirFlags); err == nil {
		a.spare = fd
	}
}

// leaveOut takes the processes of the spared container off the list, and those of
// foreign PID namespaces off their number: on v2 they end by their directories.
func (a *attempt) leaveOut(pids *[]int) error {
	a.sparing = false
	if a.spare < 0 || a.fought >= mostSparing {
		return nil
	}
	w := a.w
	w.spared = w.spared[:0]
	if err := a.walk(a.spare, func(dir int) error { return a.procs(dir, &w.spared) }); err != nil {
		return err
	}
	slices.Sort(w.spared)
	zeros, _ := slices.BinarySearch(w.spared, 1)
	if a.sparing = len(w.spared) > 0; a.sparing {
		w.invisible = max(w.invisible-zeros, 0)
		*pids = slices.DeleteFunc(*pids, func(pid int) bool { return listed(w.spared, pid) })
	}
	return nil
}

// others asks about the directory of every container but the spared one, and
// reports whether any answer was yes.
func (a *attempt) others(ask func(dir int) (bool, error)) (found bool, err error) {
	var spared unix.Stat_t
	if err := unix.Fstat(a.spare, &spared); err != nil {
		return false, fmt.Errorf("look at %s/%s: %w", a.target.Path, a.target.Spare, err)
	}
	w := a.w
	w.dirs = append(w.dirs[:0], a.members)
	err = a.children(a.members)
	for _, dir := range w.dirs[1:] {
		var st unix.Stat_t
		if err == nil && unix.Fstat(dir, &st) == nil && st.Ino != spared.Ino {
			var yes bool
			yes, err = ask(dir)
			found = found || yes
		}
		_ = unix.Close(dir)
	}
	return found, err
}

// othersPopulated is [attempt.populated] of every container but the spared one:
// the pod's own word counts that one, too.
func (a *attempt) othersPopulated() bool {
	populated, err := a.others(func(dir int) (bool, error) {
		fd, err := openat(dir, nameEvents, unix.O_RDONLY)
		if err != nil {
			return false, nil // removed
		}
		defer unix.Close(fd)
		populated, _ := a.populatedBy(fd)
		return populated, nil
	})
	return populated && err == nil
}
