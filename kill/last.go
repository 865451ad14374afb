package kill

import "slices"

// mostSparing is in how many rounds the last container is spared at most: who
// fights a kill is ended altogether.
const mostSparing = 4

// openLast opens the container that ends last. One that is not there is nobody.
func (a *attempt) openLast() {
	if a.target.Last == "" || len(a.target.Last)+1 > len(a.w.path) {
		return
	}
	n := copy(a.w.path, a.target.Last)
	a.w.path[n] = 0
	if fd, err := openat(a.members, &a.w.path[0], dirFlags); err == nil {
		a.last = fd
	}
}

// spare takes the processes of the last container off the list as long as there
// are others. Members of a foreign PID namespace are not told apart: they all
// count as the last, which is then not spared.
func (a *attempt) spare(pids *[]int) error {
	a.sparing = false
	if a.last < 0 || a.result.Rounds >= mostSparing {
		return nil
	}
	w := a.w
	w.spared = w.spared[:0]
	if err := a.walk(a.last, func(dir int) error { return a.procs(dir, &w.spared) }); err != nil {
		return err
	}
	slices.Sort(w.spared)
	if !slices.ContainsFunc(*pids, func(pid int) bool { return !listed(w.spared, pid) }) {
		return nil
	}
	a.sparing, a.spared = true, true
	*pids = slices.DeleteFunc(*pids, func(pid int) bool { return listed(w.spared, pid) })
	return nil
}

// trailing reports whether only those are left who were spared before.
func (a *attempt) trailing() bool { return a.spared && !a.sparing }
