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

// Bounds of a walk that nobody configures.
const (
	// maxDepth is how deep a walk goes: each level holds a descriptor open and
	// a buffer.
	maxDepth = 128
	// maxLinks is how many inodes with several names are remembered, a few MiB.
	maxLinks = 1 << 16
	// listBytes is how much of a directory is listed at a time.
	listBytes = 8 << 10
	// checkEvery is after how many entries the clock is read, about 100 µs.
	checkEvery = 64
)

var (
	errDepth   = fmt.Errorf("directories more than %d deep are not counted", maxDepth)
	errLinks   = fmt.Errorf("more than %d files have several names, the rest of them is not counted", maxLinks)
	errEntries = errors.New("it has more entries than are counted of one pod")
	errPodTime = errors.New("its time is over")
)

// A walker adds up what lies in a pod's directories: allocated blocks and
// inodes, directories included, each inode once however many names it has.
// That is what du counts, so a file that was deleted and is still open counts
// for nobody.
//
// It names directories by descriptors, so that nobody can lead it elsewhere by
// renaming one on the way; it follows no symbolic link, enters no mount, and
// what vanishes under its hands was never there. It stops in time: what it has
// counted until then is a lower bound.
type walker struct {
	ctx   context.Context
	until time.Time
	left  int // entries that may still be counted

	device  device // of the tree that is walked
	bytes   int64
	inodes  int64
	links   map[link]struct{}
	nolinks bool   // files with several names can not be told apart any more
	resume  []step // where the walk of the tree goes on, from its top
	trail   []step // where it was stopped, from the depth
	cut     error  // why not everything of the tree was counted, the first reason
	stopped error  // why nothing more of the pod is counted

	st     unix.Statx_t
	levels [][]byte // one buffer for each level
}

type device struct{ major, minor uint32 }

type link struct {
	device device
	inode  uint64
}

// start prepares to count another pod.
func (w *walker) start(until time.Time, entries int) {
	w.until, w.left, w.stopped, w.nolinks = until, entries, nil, false
	clear(w.links)
}

// tree counts what lies at a path below a directory, all of it or up to cut; from is
// where an earlier walk was stopped, nil for none. A path that does not exist is an
// error, and so is one that leads through a symbolic link. Where the walk is stopped,
// next is where to go on.
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

// descend opens a directory below another, through no symbolic link.
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

// entry counts one entry of a directory and what lies below it. The error is
// that of the entry itself.
func (w *walker) entry(dir int, name *byte, depth int) unix.Errno {
	if errno := w.look(dir, name, unix.AT_SYMLINK_NOFOLLOW); errno != 0 {
		return errno
	}
	switch {
	case depth > 0 && w.crosses():
		return 0
	case depth == 0 && w.isForeign():
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
			w.count() // by itself, without what is in it
		}
		return errno
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return w.directory(fd, depth)
}

// directory counts an open directory and what lies below it. It looks at it
// again: what was opened need not be what was looked at.
func (w *walker) directory(fd, depth int) unix.Errno {
	var self byte
	if errno := w.look(fd, &self, unix.AT_EMPTY_PATH); errno != 0 {
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

// pass goes through a directory once, from a position on, to which it adds.
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
			w.listed(fd, list[:n], depth+1, at)
		}
	}
}

// Where the parts of a linux_dirent64 lie.
const (
	direntOffset = 8 // of the next entry
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// listed counts those entries that the kernel listed of which it is the pass.
func (w *walker) listed(dir int, list []byte, depth int, at *step) {
	for len(list) > direntName && w.stopped == nil {
		length := int(binary.NativeEndian.Uint16(list[direntLength:]))
		if length <= direntName || length > len(list) {
			w.cutBy(errors.New("list a directory: the kernel's list is damaged"))
			return
		}
		name := list[direntName:length] // ends in zero bytes
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
			w.cutBy(fmt.Errorf("look at %q: %w", unix.BytePtrToString(&name[0]), errno))
		}
		if w.stopped == nil {
			at.offset = behind
		}
		w.resume = nil // it was for the first directory, if any
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

// crosses reports whether what was looked at is a mount, which is not the
// pod's even if it is of the same device. Kernels before 5.8 do not tell, and a
// bind mount of the same filesystem is walked there.
func (w *walker) crosses() bool {
	return w.device != device{w.st.Dev_major, w.st.Dev_minor} || w.st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// count adds what was looked at, once for each inode.
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
