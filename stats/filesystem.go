package stats

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// NoInodeLimit is the free inodes and the capacity of a filesystem that makes
// inodes as it needs them (btrfs, tmpfs with nr_inodes=0): no threshold is ever
// met by it, neither a quantity nor a percentage, and yet it is known, so that
// it holds no condition.
const NoInodeLimit signals.Amount = math.MaxInt64

// A filesystem is what the kernel says of one.
type filesystem struct {
	identity           identity
	available, total   signals.Amount // bytes; available to users, without what is reserved for root
	inodesFree, inodes signals.Amount // NoInodeLimit where there is none
}

// An identity is the same for all directories of one filesystem.
type identity struct {
	device uint64
	btrfs  [16]byte // its subvolumes have devices of their own and share the room
}

// statFilesystem asks the kernel for the filesystem that holds a directory of
// the host. It waits for as long as the filesystem does not answer.
func statFilesystem(hostRoot, dir string) (filesystem, error) {
	fd, err := openOnHost(hostRoot, dir)
	if err != nil {
		return filesystem{}, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return filesystem{}, fmt.Errorf("stat %s: %w", dir, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return filesystem{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	found, err := sized(&fs)
	if err != nil {
		return filesystem{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	found.identity.device = uint64(st.Dev) //nolint:unconvert // it is 32 bits wide on some processors
	if int64(fs.Type) == unix.BTRFS_SUPER_MAGIC {
		if found.identity, err = btrfsIdentity(fd); err != nil {
			return filesystem{}, fmt.Errorf("ask %s which btrfs it is on: %w", dir, err)
		}
	}
	return found, nil
}

var (
	errAbsurdSize = errors.New("the filesystem reports an absurd size (above 2^62)")
	errNoSize     = errors.New("the filesystem reports no size: it is none that holds files on a disk")
)

// sized takes the figures from statfs. A filesystem without blocks can not run
// out of them, but it is no disk either: somebody gave the wrong directory.
func sized(fs *unix.Statfs_t) (filesystem, error) {
	block := uint64(fs.Frsize) //nolint:unconvert // its type differs between processors
	if block == 0 {
		block = uint64(fs.Bsize) //nolint:unconvert // likewise
	}
	switch {
	case fs.Blocks == 0 || block == 0:
		return filesystem{}, errNoSize
	case max(fs.Blocks, fs.Bavail) > absurd/block || max(fs.Files, fs.Ffree) > absurd:
		return filesystem{}, errAbsurdSize
	}
	found := filesystem{
		available: signals.Amount(fs.Bavail * block), total: signals.Amount(fs.Blocks * block),
		inodesFree: signals.Amount(fs.Ffree), inodes: signals.Amount(fs.Files),
	}
	if fs.Files == 0 {
		found.inodesFree, found.inodes = NoInodeLimit, NoInodeLimit
	}
	return found, nil
}

// btrfsIdentity is the filesystem's UUID, the same in all its subvolumes.
func btrfsIdentity(fd int) (identity, error) {
	// BTRFS_IOC_FS_INFO and the beginning of its answer, linux/btrfs.h.
	const fsInfo = 0x8400941f
	var info struct {
		_    [16]byte // greatest device ID, number of devices
		uuid [16]byte
		_    [1024 - 32]byte
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsInfo, uintptr(unsafe.Pointer(&info))); errno != 0 {
		return identity{}, errno
	}
	return identity{btrfs: info.uuid}, nil
}

// openOnHost opens a directory by its path on the host, whose root may be seen
// below hostRoot: symbolic links are followed as the host would follow them.
func openOnHost(hostRoot, dir string) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	if hostRoot == "" || hostRoot == "/" {
		fd, err = retryOpen(func() (int, error) { return unix.Open(dir, flags, 0) })
	} else {
		fd, err = openBelow(hostRoot, dir, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("open %s%s: %w%s", strings.TrimSuffix(hostRoot, "/"), dir, err, openRemedies[errnoOf(err)])
	}
	return fd, nil
}

func openBelow(hostRoot, dir string, flags uint64) (int, error) {
	root, err := retryOpen(func() (int, error) {
		return unix.Open(hostRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	defer unix.Close(root) //nolint:errcheck // nothing was written
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return retryOpen(func() (int, error) { return unix.Openat2(root, dir, &how) })
}

// retryOpen repeats a call that a signal interrupted, or (EAGAIN) one that lost
// a race against a rename while it made sure to stay below the host's root.
func retryOpen(open func() (int, error)) (int, error) {
	for range 16 {
		fd, err := open()
		if err == nil || err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

var openRemedies = map[unix.Errno]string{
	unix.ENOENT: ": check the path, and in a container that the host's root is mounted there",
	unix.ENOSYS: ": seeing the host's root elsewhere than at / needs openat2, that is Linux 5.6 or later",
	unix.EACCES: ": run as root",
	unix.EPERM:  ": run as root",
	unix.EMFILE: ": raise the limit of open files (RLIMIT_NOFILE)",
}

// errnoOf is the error number inside err, 0 if there is none.
func errnoOf(err error) (errno unix.Errno) {
	errors.As(err, &errno)
	return errno
}
