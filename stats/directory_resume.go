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

// A directory is walked in two passes, files first. Large files are often beside a directory
// with too many entries to count, and rarely below it.
const (
	filesPass = iota
	directoriesPass
	passes
)

const typeUnknown = 0 // DT_UNKNOWN: the filesystem does not list types

// step is the position of a walk in one directory.
type step struct {
	inode  uint64 // of the directory
	offset int64  // in its listing, as in getdents(2)
	pass   int
}

// progress is the position at which a walk was stopped, and its counts. It holds one step per
// level and nothing per file.
type progress struct {
	steps  []step // from the top
	bytes  int64
	inodes int64
	cut    error // why an earlier entry was not counted, or nil
}

// maxResumeLinks is the maximum number of hard-linked files remembered between two parts of a
// pod's walk. Beyond it, further hard-linked files are not counted.
const maxResumeLinks = 1024

// progress returns the position to resume at, or nil for a walk that was not stopped.
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

// resumed returns the position of an earlier walk in the current directory. It is nil if the
// earlier walk did not reach it, or has restarted it.
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

// isOf reports whether an entry belongs to a pass. A vanished entry belongs to filesPass.
func (w *walker) isOf(dir int, name *byte, kind byte, pass int) bool {
	if kind == typeUnknown {
		if w.statx(dir, name, unix.AT_SYMLINK_NOFOLLOW) != 0 {
			return pass == filesPass // the error is recorded there
		}
		kind = byte(w.st.Mode & unix.S_IFMT >> 12)
	}
	return (kind == unix.DT_DIR) == (pass == directoriesPass)
}

// linksToResume returns the hard-linked files to remember until a walk resumes.
func (w *walker) linksToResume() (links map[link]struct{}, full bool) {
	if w.nolinks || len(w.links) > maxResumeLinks {
		return nil, true
	}
	return maps.Clone(w.links), false
}

// isForeign reports whether the current entry is a mount that the kubelet did not make. A
// filesystem mounted by a pod may answer anything, or nothing. The kubelet itself mounts memory
// filesystems. Files on the disk below the mount are not visible.
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

// maxMountLine exceeds any line of mountinfo: two paths and two lists of options.
const maxMountLine = 64 << 10

// kindOfMount returns the filesystem type of a mount from mountinfo, which does not query the
// filesystem (proc(5)).
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
