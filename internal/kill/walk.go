package kill

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Bounds of a walk through the directories of a pod. The pod controls their number.
const (
	// maxDepth is the maximum depth of a walk below the pod's directory. Each level keeps a file
	// open.
	maxDepth = 32
	// maxDirs is the maximum number of directories of a walk, which take about half a second.
	maxDirs = 1 << 16
	// clockEvery is the number of directories or processes between two reads of the clock, about
	// half a millisecond.
	clockEvery = 32
)

var (
	errDepth = fmt.Errorf("it has directories more than %d deep", maxDepth)
	errDirs  = fmt.Errorf("it has more than %d directories", maxDirs)
	errTime  = errors.New("its directories take too long to list")
	errFound = errors.New("found") // ends a walk
)

// level is a directory of the current walk.
type level struct {
	dir       int
	buffer    []byte
	unvisited []byte // entries of buffer that were listed and not visited yet
}

// walk calls visit for a directory and all below it, depth first: the number of open files depends
// only on the depth. A directory that cannot be read or visited is skipped. Returns the first
// error, or errFound immediately.
func (a *attempt) walk(root int, visit func(dir int) error) error {
	w := a.w
	if _, err := unix.Seek(root, 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("rewind a directory: %w", err)
	}
	until := a.listUntil
	if a.listFor > 0 {
		until = time.Now().Add(a.listFor)
	}
	first := visit(root)
	w.levels[0].dir, w.levels[0].unvisited = root, nil
	depth, dirs, stop := 0, 0, first == errFound
	for depth >= 0 && !stop {
		child, err := w.levels[depth].next()
		first = cmp.Or(first, err)
		if child < 0 {
			if depth > 0 {
				_ = unix.Close(w.levels[depth].dir)
			}
			depth--
			continue
		}
		dirs++
		err = visit(child)
		if stop = err == errFound; stop {
			first = err
		} else if bound := bounds(dirs, until); err != nil || bound != nil {
			first, stop = cmp.Or(first, err, bound), bound != nil
		}
		switch {
		case isLeaf(child):
		case depth == maxDepth:
			first = cmp.Or(first, errDepth)
		default:
			depth++
			w.levels[depth].dir, w.levels[depth].unvisited = child, nil
			child = -1
		}
		if child >= 0 {
			_ = unix.Close(child)
		}
	}
	for ; depth > 0; depth-- {
		_ = unix.Close(w.levels[depth].dir)
	}
	return first
}

// bounds returns why a walk ends after so many directories, nil if it continues.
func bounds(dirs int, until time.Time) error {
	switch {
	case dirs >= maxDirs:
		return errDirs
	case dirs%clockEvery == 0 && !until.IsZero() && time.Now().After(until):
		return errTime
	}
	return nil
}

// next opens the next directory in this one; -1 if there is none. Returns an error if some could
// not be opened, or not listed.
func (l *level) next() (child int, first error) {
	for {
		for len(l.unvisited) > 0 {
			var name []byte
			name, l.unvisited = cgroup.NextDirectory(l.unvisited)
			if name == nil {
				continue
			}
			fd, err := openat(l.dir, &name[0], dirFlags)
			if err == nil {
				return fd, first
			}
			if !gone(err) && first == nil {
				first = fmt.Errorf("open a directory: %w", err)
			}
		}
		n, err := unix.Getdents(l.dir, l.buffer)
		switch {
		case err == unix.EINTR:
		case gone(err), err == nil && n == 0:
			return -1, first
		case err != nil:
			return -1, cmp.Or(first, fmt.Errorf("list a directory: %w", err))
		default:
			l.unvisited = l.buffer[:n]
		}
	}
}

// isLeaf reports whether a cgroup has no directories: its links are "." and its name.
func isLeaf(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && st.Nlink == 2
}
