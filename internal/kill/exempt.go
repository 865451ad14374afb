package kill

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// maxFightingRounds is the maximum number of rounds with new processes in which directories are
// exempt: a pod that fights the kill is ended completely. A slow exit does not count as fighting.
const maxFightingRounds = 4

// exemptDir is an open directory of [Target.Exempt].
type exemptDir struct {
	fd    int
	inode uint64
}

// openExempt opens the exempt directories. A missing one has no processes.
func (a *attempt) openExempt() {
	for _, name := range a.target.Exempt {
		if name == "" || len(name)+1 > len(a.w.path) {
			continue
		}
		n := copy(a.w.path, name)
		a.w.path[n] = 0
		fd, err := openat(a.members, &a.w.path[0], dirFlags)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			_ = unix.Close(fd)
			continue
		}
		a.w.exemptDirs = append(a.w.exemptDirs, exemptDir{fd, st.Ino})
	}
}

// removeExempt removes the exempt processes from the list. It subtracts those of foreign PID
// namespaces from the number of invisible processes; on v2 the remaining ones end by their
// directories.
func (a *attempt) removeExempt(pids *[]int) error {
	a.exempting = false
	w := a.w
	if len(w.exemptDirs) == 0 || a.fightingRounds >= maxFightingRounds {
		return nil
	}
	if err := a.listExempt(); err != nil {
		return err
	}
	zeros, _ := slices.BinarySearch(w.exemptPIDs, 1)
	if a.exempting = len(w.exemptPIDs) > 0; a.exempting {
		w.invisible = max(w.invisible-zeros, 0)
		*pids = slices.DeleteFunc(*pids, func(pid int) bool { return listed(w.exemptPIDs, pid) })
	}
	return nil
}

// listExempt lists the exempt processes, sorted.
func (a *attempt) listExempt() error {
	w := a.w
	w.exemptPIDs = w.exemptPIDs[:0]
	for _, d := range w.exemptDirs {
		if err := a.walk(d.fd, func(dir int) error { return a.procs(dir, &w.exemptPIDs) }); err != nil {
			return err
		}
	}
	slices.Sort(w.exemptPIDs)
	return nil
}

// forEachNotExempt calls do for every subdirectory of the pod that is not exempt, and reports
// whether any result was true. A failure for one does not prevent the others: the error is the first
// one.
//
// It is for v2 only, and skips the pod's own directory, which has no processes: the cgroups of
// containers have the memory controller, so the pod's cgroup.subtree_control enables it. By the rule
// "no internal processes" of cgroups(7) such a cgroup cannot have processes beside its children.
func (a *attempt) forEachNotExempt(do func(dir int) (bool, error)) (found bool, first error) {
	l := &a.w.levels[0]
	if _, err := unix.Seek(a.members, 0, unix.SEEK_SET); err != nil {
		return false, err
	}
	l.dir, l.unvisited = a.members, nil
	for {
		dir, err := l.next()
		first = cmp.Or(first, err)
		if dir < 0 {
			return found, first
		}
		var st unix.Stat_t
		if unix.Fstat(dir, &st) == nil && !a.isExempt(st.Ino) {
			yes, err := do(dir)
			first, found = cmp.Or(first, err), found || yes
		}
		_ = unix.Close(dir)
	}
}

func (a *attempt) isExempt(inode uint64) bool {
	return slices.ContainsFunc(a.w.exemptDirs, func(d exemptDir) bool { return d.inode == inode })
}

var errEvents = errors.New("cgroup.events can not be read")

// populatedNotExempt reports whether a subdirectory that is not exempt has processes, by its own
// cgroup.events: that of the pod counts the exempt ones, too.
func (a *attempt) populatedNotExempt() (populated, known bool) {
	populated, err := a.forEachNotExempt(func(dir int) (bool, error) {
		fd, err := openat(dir, nameEvents, unix.O_RDONLY)
		if gone(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer unix.Close(fd)
		populated, known := a.readPopulated(fd)
		if !known {
			return false, errEvents
		}
		return populated, nil
	})
	return populated, populated || err == nil
}
