package kill

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// maxSparing is the maximum number of rounds with new processes in which directories are spared: a
// pod that fights the kill is ended completely. A slow exit does not count as fighting.
const maxSparing = 4

// spare is an open directory with processes that receive no signal.
type spare struct {
	dir   int
	inode uint64
}

// openSpares opens the spared directories. A missing one has no processes.
func (a *attempt) openSpares() {
	for _, name := range a.target.Exclude {
		if name == "" || len(name)+1 > len(a.w.path) {
			continue
		}
		n := copy(a.w.path, name)
		a.w.path[n] = 0
		dir, err := openat(a.members, &a.w.path[0], dirFlags)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(dir, &st) != nil {
			_ = unix.Close(dir)
			continue
		}
		a.w.spares = append(a.w.spares, spare{dir, st.Ino})
	}
}

// leaveOut removes the spared processes from the list. It subtracts those of foreign PID namespaces
// from the number of invisible processes; on v2 the remaining ones end by their directories.
func (a *attempt) leaveOut(pids *[]int) error {
	a.sparing = false
	w := a.w
	if len(w.spares) == 0 || a.fought >= maxSparing {
		return nil
	}
	if err := a.listSpared(); err != nil {
		return err
	}
	zeros, _ := slices.BinarySearch(w.spared, 1)
	if a.sparing = len(w.spared) > 0; a.sparing {
		w.invisible = max(w.invisible-zeros, 0)
		*pids = slices.DeleteFunc(*pids, func(pid int) bool { return listed(w.spared, pid) })
	}
	return nil
}

// listSpared lists the spared processes, sorted.
func (a *attempt) listSpared() error {
	w := a.w
	w.spared = w.spared[:0]
	for _, s := range w.spares {
		if err := a.walk(s.dir, func(dir int) error { return a.procs(dir, &w.spared) }); err != nil {
			return err
		}
	}
	slices.Sort(w.spared)
	return nil
}

// others calls ask for every subdirectory of the pod except the spared ones, and reports whether
// any result was true. A failure for one does not prevent the others: the error is the first one.
func (a *attempt) others(ask func(dir int) (bool, error)) (found bool, first error) {
	l := &a.w.levels[0]
	if _, err := unix.Seek(a.members, 0, unix.SEEK_SET); err != nil {
		return false, err
	}
	l.dir, l.left = a.members, nil
	for {
		dir, err := l.next()
		first = cmp.Or(first, err)
		if dir < 0 {
			return found, first
		}
		var st unix.Stat_t
		if unix.Fstat(dir, &st) == nil && !a.spares(st.Ino) {
			yes, err := ask(dir)
			first, found = cmp.Or(first, err), found || yes
		}
		_ = unix.Close(dir)
	}
}

func (a *attempt) spares(inode uint64) bool {
	return slices.ContainsFunc(a.w.spares, func(s spare) bool { return s.inode == inode })
}

var errEvents = errors.New("cgroup.events can not be read")

// othersPopulated is [attempt.populated] of every directory except the spared ones, which the pod's
// own cgroup.events counts, too.
func (a *attempt) othersPopulated() (populated, known bool) {
	populated, err := a.others(func(dir int) (bool, error) {
		fd, err := openat(dir, nameEvents, unix.O_RDONLY)
		if gone(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		populated, known := a.populatedBy(fd)
		if !known {
			return false, errEvents
		}
		return populated, nil
	})
	return populated, populated || err == nil
}
