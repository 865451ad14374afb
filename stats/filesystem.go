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

// NoInodeLimit is the number of free inodes and the inode capacity of a filesystem that
// allocates inodes on demand (btrfs, tmpfs with nr_inodes=0). It never meets a threshold,
// neither a quantity nor a percentage. The signal is known all the same, so it does not prolong
// a condition.
const NoInodeLimit signals.Amount = math.MaxInt64

// filesystem is the kernel's report of one filesystem.
type filesystem struct {
	identity           identity
	available, total   signals.Amount // bytes; available excludes the reserve for root
	inodesFree, inodes signals.Amount // NoInodeLimit if there is no limit
}

// identity is equal for all directories of one filesystem.
type identity struct {
	device uint64
	btrfs  [16]byte // subvolumes have separate devices and share the space
}

// statFilesystem queries the kernel for the filesystem of a host directory. It blocks while the
// filesystem does not answer.
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
	found.identity, err = identityOf(fd, &st, &fs)
	if err != nil {
		return filesystem{}, fmt.Errorf("find the btrfs filesystem of %s: %w", dir, err)
	}
	return found, nil
}

// identityOf returns the identity of the filesystem of an open file.
func identityOf(fd int, st *unix.Stat_t, fs *unix.Statfs_t) (identity, error) {
	if int64(fs.Type) == unix.BTRFS_SUPER_MAGIC {
		return btrfsIdentity(fd)
	}
	return identity{device: uint64(st.Dev)}, nil //nolint:unconvert // it is 32 bits wide on some processors
}

var (
	errAbsurdSize = errors.New("the filesystem reports an absurd size (above 2^62)")
	errNoSize     = errors.New("the filesystem reports no size: it is none that holds files on a disk")
)

// sized converts the result of statfs. A filesystem without blocks can not be exhausted and is
// no disk either, so the configured directory is wrong.
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

// btrfsIdentity returns the filesystem's UUID, which all its subvolumes share.
func btrfsIdentity(fd int) (identity, error) {
	// BTRFS_IOC_FS_INFO and the beginning of its result, linux/btrfs.h.
	const fsInfo = 0x8400941f
	var info struct {
		_    [16]byte // maximum device ID, number of devices
		uuid [16]byte
		_    [1024 - 32]byte
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsInfo, uintptr(unsafe.Pointer(&info))); errno != 0 {
		return identity{}, errno
	}
	return identity{btrfs: info.uuid}, nil
}

// openOnHost opens a directory by its path on the host, the root of which may be mounted at
// hostRoot. It resolves symbolic links relative to the host's root.
func openOnHost(hostRoot, dir string) (fd int, err error) {
	return openHostFile(hostRoot, dir, unix.O_RDONLY|unix.O_DIRECTORY)
}

// openHostFile is openOnHost with other flags.
func openHostFile(hostRoot, dir string, flags int) (fd int, err error) {
	flags |= unix.O_CLOEXEC
	if hostRoot == "" || hostRoot == "/" {
		fd, err = retryOpen(func() (int, error) { return unix.Open(dir, flags, 0) })
	} else {
		fd, err = openBelow(hostRoot, dir, uint64(flags))
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

// retryOpen retries a call after a signal (EINTR), or after a concurrent rename during the
// resolution below the host's root (EAGAIN).
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

// errnoOf returns the error number in err, or 0.
func errnoOf(err error) (errno unix.Errno) {
	errors.As(err, &errno)
	return errno
}
