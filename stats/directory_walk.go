package stats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Fixed bounds of a walk.
const (
	// maxDepth is the maximum depth of a walk. Each level holds an open descriptor and a
	// buffer.
	maxDepth = 128
	// maxLinks is the maximum number of hard-linked inodes remembered, a few MiB.
	maxLinks = 1 << 16
	// listBytes is the size of the buffer for one listing call.
	listBytes = 8 << 10
	// checkEvery is the number of entries between two reads of the clock, about 100 µs.
	checkEvery = 64
)

var (
	errDepth   = fmt.Errorf("directories more than %d deep are not counted", maxDepth)
	errLinks   = fmt.Errorf("more than %d files have several names, the rest of them is not counted", maxLinks)
	errEntries = errors.New("it has more entries than are counted of one pod")
	errPodTime = errors.New("its time is over")
)

// walker adds up the files in a pod's directories: allocated blocks and inodes, directories
// included. A hard-linked inode counts once. The result equals that of du, so a deleted but
// open file is not counted.
//
// It identifies directories by descriptors, so that a concurrent rename can not redirect it. It
// follows no symbolic link, enters no mount, and ignores entries that vanish during the walk.
// At its deadline it stops, and the counts are a lower bound.
type walker struct {
	ctx   context.Context
	until time.Time
	left  int // remaining number of entries

	device  device // of the current tree
	bytes   int64
	inodes  int64
	links   map[link]struct{}
	nolinks bool              // hard-linked files can no longer be distinguished
	resume  []step            // where the walk of the tree resumes, from its top
	trail   []step            // where it was stopped, deepest level first
	onHost  bool              // the tree is a directory of the host, which may be a mount
	others  map[link]struct{} // directories that are not entered
	cut     error             // the first cause of an incomplete tree
	stopped error             // why counting of the pod stopped

	st     unix.Statx_t
	levels [][]byte // one buffer per level
}

type device struct{ major, minor uint32 }

type link struct {
	device device
	inode  uint64
}

// start resets the walker for another pod.
func (w *walker) start(until time.Time, entries int) {
	w.until, w.left, w.stopped, w.nolinks = until, entries, nil, false
	clear(w.links)
}

// tree counts the files at a path below a directory; from is the position of an earlier walk,
// or nil. The first cause of an incomplete count is recorded in w.cut. If the walk is stopped,
// next is the position to resume at. Returns an error if the path does not exist or leads
// through a symbolic link.
func (w *walker) tree(top int, path string, from *progress) (next *progress, err error) {
	w.bytes, w.inodes, w.cut, w.resume, w.trail = 0, 0, w.stopped, nil, w.trail[:0]
	if from != nil {
		w.bytes, w.inodes, w.resume, w.cut = from.bytes, from.inodes, from.steps, from.cut
	}
	if w.stopped == nil && w.expired() {
		w.stop(errPodTime)
	}
	if w.stopped != nil {
		return from, w.stopped
	}
	parents, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parents, name = path[:i], path[i+1:]
	}
	dir, err := descend(top, parents)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	last, err := unix.BytePtrFromString(name)
	if err != nil {
		return nil, err
	}
	if errno := w.entry(dir, last, 0); errno != 0 {
		return nil, errno
	}
	return w.progress(), nil
}

// descend opens a directory below another without following symbolic links.
func descend(top int, path string) (int, error) {
	dir, err := unix.FcntlInt(uintptr(top), unix.F_DUPFD_CLOEXEC, 0)
	for name := range strings.SplitSeq(path, "/") {
		if err != nil {
			return -1, err
		}
		if name == "" {
			continue
		}
		var below int
		below, err = retryOpen(func() (int, error) { return unix.Openat(dir, name, openFlags, 0) })
		_ = unix.Close(dir)
		dir = below
	}
	return dir, err
}

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// entry counts one directory entry and everything below it. The error is that of the entry
// itself.
func (w *walker) entry(dir int, name *byte, depth int) unix.Errno {
	if errno := w.statx(dir, name, unix.AT_SYMLINK_NOFOLLOW); errno != 0 {
		return errno
	}
	switch {
	case depth > 0 && w.crosses():
		return 0
	case depth == 0 && !w.onHost && w.isForeign():
		return 0
	case depth == 0 && w.st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return unix.ELOOP
	case w.st.Mode&unix.S_IFMT != unix.S_IFDIR:
		w.count()
		return 0
	case depth == maxDepth:
		w.count()
		w.cutBy(errDepth)
		return 0
	}
	fd, errno := openAt(dir, name)
	if errno != 0 {
		if depth > 0 && !isGone(errno) {
			w.count() // the directory alone, without its contents
		}
		return errno
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return w.directory(fd, depth)
}

// directory counts an open directory and everything below it. It calls statx again, because the
// opened directory may differ from the one checked before.
func (w *walker) directory(fd, depth int) unix.Errno {
	var self byte
	if errno := w.statx(fd, &self, unix.AT_EMPTY_PATH); errno != 0 {
		return errno
	}
	if depth == 0 {
		w.device = device{w.st.Dev_major, w.st.Dev_minor}
	} else if w.crosses() {
		return 0
	}
	for len(w.levels) <= depth {
		w.levels = append(w.levels, make([]byte, listBytes))
	}
	at := step{inode: w.st.Ino}
	if resumed := w.resumed(depth); resumed != nil {
		at = *resumed
	} else {
		w.count()
	}
	for ; at.pass < passes; at.pass, at.offset = at.pass+1, 0 {
		if w.pass(fd, depth, &at); w.stopped != nil {
			w.trail = append(w.trail, at)
			return 0
		}
	}
	return 0
}

// pass runs one pass over a directory from a position, which it advances.
func (w *walker) pass(fd, depth int, at *step) {
	if _, err := unix.Seek(fd, at.offset, unix.SEEK_SET); err != nil {
		w.cutBy(fmt.Errorf("list a directory: %w", err))
		return
	}
	list := w.levels[depth]
	for w.stopped == nil {
		n, err := unix.Getdents(fd, list)
		switch {
		case err == unix.EINTR:
		case err != nil && !isGone(errnoOf(err)):
			w.cutBy(fmt.Errorf("list a directory: %w", err))
			return
		case n <= 0:
			return
		default:
			if w.listed(fd, list[:n], depth+1, at); w.stopped == nil && w.expired() { // the entries may all be of the other pass
				w.stop(errPodTime)
			}
		}
	}
}

// Offsets of the fields of a linux_dirent64.
const (
	direntOffset = 8 // position of the next entry
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// listed counts the listed entries that belong to the current pass.
func (w *walker) listed(dir int, list []byte, depth int, at *step) {
	for len(list) > direntName && w.stopped == nil {
		length := int(binary.NativeEndian.Uint16(list[direntLength:]))
		if length <= direntName || length > len(list) {
			w.cutBy(errors.New("list a directory: the kernel's list is damaged"))
			return
		}
		name := list[direntName:length] // terminated by zero bytes
		behind := int64(binary.NativeEndian.Uint64(list[direntOffset:]))
		kind := list[direntType]
		list = list[length:]
		if name[0] == '.' && (name[1] == 0 || name[1] == '.' && name[2] == 0) || !w.isOf(dir, &name[0], kind, at.pass) {
			at.offset = behind
			continue
		}
		if w.left--; w.left < 0 {
			w.stop(errEntries)
			return
		}
		if w.left%checkEvery == 0 && w.expired() {
			w.stop(errPodTime)
			return
		}
		if errno := w.entry(dir, &name[0], depth); errno != 0 && !isGone(errno) {
			w.cutBy(fmt.Errorf("stat %q: %w", unix.BytePtrToString(&name[0]), errno))
		}
		if w.stopped == nil {
			at.offset = behind
		}
		w.resume = nil // applies to the first directory only
	}
}

func (w *walker) expired() bool { return w.ctx.Err() != nil || !time.Now().Before(w.until) }

func (w *walker) stop(why error) {
	w.stopped = why
	w.cutBy(why)
}

func (w *walker) cutBy(why error) {
	if w.cut == nil {
		w.cut = why
	}
}

// crosses reports whether the current entry is a mount, which is not the pod's even on the same
// device, or measured on its own. Kernels before 5.8 do not report mounts: a bind mount of the same
// filesystem is walked there.
func (w *walker) crosses() bool {
	if w.device != (device{w.st.Dev_major, w.st.Dev_minor}) || w.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return true
	}
	_, other := w.others[link{w.device, w.st.Ino}]
	return other
}

// count adds the current entry, once per inode.
func (w *walker) count() {
	if w.st.Nlink > 1 && w.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		l := link{device{w.st.Dev_major, w.st.Dev_minor}, w.st.Ino}
		if _, seen := w.links[l]; seen {
			return
		}
		if w.nolinks || len(w.links) >= maxLinks {
			w.cutBy(errLinks)
			return
		}
		w.links[l] = struct{}{}
	}
	w.bytes += int64(w.st.Blocks) * 512
	w.inodes++
}
