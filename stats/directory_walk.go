package stats

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

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
	cut     error // why not everything of the tree was counted, the first reason
	stopped error // why nothing more of the pod is counted

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
	w.until, w.left, w.stopped = until, entries, nil
	clear(w.links)
}

// tree counts what lies at a path below a directory, all of it or up to cut. A
// path that does not exist is an error, and so is one that leads through a
// symbolic link.
func (w *walker) tree(top int, path string) error {
	w.bytes, w.inodes, w.cut = 0, 0, w.stopped
	if w.stopped == nil && w.expired() {
		w.stop(errPodTime)
	}
	if w.stopped != nil {
		return w.stopped
	}
	parents, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parents, name = path[:i], path[i+1:]
	}
	dir, err := descend(top, parents)
	if err != nil {
		return err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	last, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if errno := w.entry(dir, last, 0); errno != 0 {
		return errno
	}
	return nil
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
	w.count()
	for len(w.levels) <= depth {
		w.levels = append(w.levels, make([]byte, listBytes))
	}
	list := w.levels[depth]
	for w.stopped == nil {
		n, err := unix.Getdents(fd, list)
		switch {
		case err == unix.EINTR:
		case err != nil && !isGone(errnoOf(err)):
			w.cutBy(fmt.Errorf("list a directory: %w", err))
			return 0
		case n <= 0:
			return 0
		default:
			w.listed(fd, list[:n], depth+1)
		}
	}
	return 0
}

// Where the parts of a linux_dirent64 lie.
const (
	direntLength = 16
	direntName   = 19
)

// listed counts the entries that the kernel listed.
func (w *walker) listed(dir int, list []byte, depth int) {
	for len(list) > direntName && w.stopped == nil {
		length := int(binary.NativeEndian.Uint16(list[direntLength:]))
		if length <= direntName || length > len(list) {
			w.cutBy(errors.New("list a directory: the kernel's list is damaged"))
			return
		}
		name := list[direntName:length] // ends in zero bytes
		list = list[length:]
		if name[0] == '.' && (name[1] == 0 || name[1] == '.' && name[2] == 0) {
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
		if len(w.links) >= maxLinks {
			w.cutBy(errLinks)
			return
		}
		w.links[l] = struct{}{}
	}
	w.bytes += int64(w.st.Blocks) * 512
	w.inodes++
}

// isGone reports whether an entry has vanished since it was listed, or turned
// into something else.
func isGone(errno unix.Errno) bool {
	return errno == unix.ENOENT || errno == unix.ENOTDIR || errno == unix.ELOOP
}

// look asks for what a walk needs to know and nothing more, and of a network
// filesystem only what is known here. It allocates nothing: the names stay
// where the kernel has listed them.
func (w *walker) look(dir int, name *byte, flags uintptr) unix.Errno {
	const want = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)),
		flags|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, want, uintptr(unsafe.Pointer(&w.st)), 0)
	return errno
}

func openAt(dir int, name *byte) (int, unix.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), openFlags, 0, 0, 0)
		if errno != unix.EINTR {
			return int(fd), errno
		}
	}
}

// yield lets everybody else go first, on the processor and on the disk. It
// holds for the thread, which the caller's goroutine takes with it when it ends.
func yield() {
	const (
		nice         = 10
		ofProcess    = 1
		idleIO       = 3 << 13 // IOPRIO_CLASS_IDLE
		callerThread = 0
	)
	_ = unix.Setpriority(unix.PRIO_PROCESS, callerThread, nice)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, callerThread, idleIO)
}
