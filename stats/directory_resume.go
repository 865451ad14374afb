package stats

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A directory is gone through twice: what is large is rarely behind a directory, and
// often beside one with more files than can be counted.
const (
	filesPass = iota
	directoriesPass
	passes
)

const typeUnknown = 0 // DT_UNKNOWN: the filesystem does not say in a listing

// A step is how far a walk has come in one directory.
type step struct {
	inode  uint64 // the directory
	offset int64  // in its listing, as getdents(2) has it
	pass   int
}

// progress is where a walk was stopped, and what it had counted. It holds a step for
// each level, and nothing of the files.
type progress struct {
	steps  []step // from the top
	bytes  int64
	inodes int64
	cut    error // why something before was not counted, nil if all was
}

// maxKeptLinks is how many files with several names are remembered of a pod from one
// part of a walk to the next. With more of them, none is counted from there on.
const maxKeptLinks = 1024

// progress is where to go on; nil for a walk that was not stopped.
func (w *walker) progress() *progress {
	if w.stopped == nil || len(w.trail) == 0 {
		return nil
	}
	steps := slices.Clone(w.trail)
	slices.Reverse(steps)
	cut := w.cut
	if cut == w.stopped {
		cut = nil
	}
	return &progress{steps, w.bytes, w.inodes, cut}
}

// resumed is where an earlier walk has left the directory that was looked at last; nil
// if it was never there, or has begun to count it anew.
func (w *walker) resumed(depth int) *step {
	if depth >= len(w.resume) || w.resume[depth].inode != w.st.Ino {
		if depth == 0 && w.resume != nil { // another directory in its place
			w.bytes, w.inodes = 0, 0
		}
		w.resume = nil
		return nil
	}
	return &w.resume[depth]
}

// isOf reports whether a pass is for an entry. One that vanishes is of none.
func (w *walker) isOf(dir int, name *byte, kind byte, pass int) bool {
	if kind == typeUnknown {
		if w.look(dir, name, unix.AT_SYMLINK_NOFOLLOW) != 0 {
			return pass == filesPass // where the error is noted
		}
		kind = byte(w.st.Mode & unix.S_IFMT >> 12)
	}
	return (kind == unix.DT_DIR) == (pass == directoriesPass)
}

// keepLinks is what to remember of files with several names until a walk goes on.
func (w *walker) keepLinks() (links map[link]struct{}, full bool) {
	if w.nolinks || len(w.links) > maxKeptLinks {
		return nil, true
	}
	return maps.Clone(w.links), false
}

// isForeign reports whether what was looked at is a mount that is not the kubelet's:
// a filesystem that a pod has mounted may answer anything, or nothing. The kubelet
// mounts files in memory. What lies on the disk below the mount can not be seen.
func (w *walker) isForeign() bool {
	if w.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false
	}
	kind, err := kindOfMount(w.st.Mnt_id)
	switch {
	case err != nil:
		w.cutBy(fmt.Errorf("a filesystem is mounted on it: %w", err))
		return true
	case kind == "tmpfs", kind == "hugetlbfs":
		return false
	}
	w.cutBy(fmt.Errorf("a filesystem of type %s is mounted on it, which is not the kubelet's", kind))
	return true
}

// maxMountLine is more than a line of mountinfo has: two paths and two lists of options.
const maxMountLine = 64 << 10

// kindOfMount is the filesystem type of a mount, from mountinfo, which does not ask the
// filesystem anything (proc(5)).
func kindOfMount(id uint64) (string, error) {
	mounts, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close() //nolint:errcheck // nothing was written
	lines := bufio.NewScanner(mounts)
	lines.Buffer(nil, maxMountLine)
	prefix := fmt.Sprintf("%d ", id)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), prefix) {
			continue
		}
		if _, behind, ok := strings.Cut(lines.Text(), " - "); ok {
			kind, _, _ := strings.Cut(behind, " ")
			return kind, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read mountinfo: %w", err)
	}
	return "", fmt.Errorf("mount %d is not in mountinfo", id)
}
