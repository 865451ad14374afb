package kill

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/internal/cgroup"
)

// dirFlags open only a directory. The last element of a path must not be a symbolic link, and every
// element is opened as the last one.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openMount opens the root of a tree. It follows links, which some distributions have there.
func openMount(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	return fd, nil
}

// open checks that the target is a pod's directory and opens it in every tree.
func (a *attempt) open() error {
	t := a.target
	uid, ok := cgroup.ParsePodPath(t.Path)
	if !ok || uid != t.UID || t.Path[0] != '/' {
		return a.failed(fmt.Errorf("%w: %s does not name pod %q below kubepods", ErrNotPod, t.Path, t.UID))
	}
	var err error
	if a.members, err = a.descend(a.k.mounts.members); err != nil {
		return a.failed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(a.members, &st); err != nil {
		return a.failed(fmt.Errorf("open %s: %w", t.Path, err))
	}
	switch {
	case uint64(st.Dev) != a.k.mounts.device:
		return a.failed(fmt.Errorf("%w: something else is mounted at %s", ErrNotPod, t.Path))
	case st.Ino != t.Inode:
		return a.failed(fmt.Errorf("%w: %s has inode %d, observed was %d", ErrChanged, t.Path, st.Ino, t.Inode))
	}
	if a.k.mounts.pids >= 0 {
		a.pids, _ = a.descend(a.k.mounts.pids)
	}
	if a.k.mounts.freezer >= 0 {
		a.freezer, _ = a.descend(a.k.mounts.freezer)
	}
	if a.k.mounts.version == cgroup.V2 {
		a.events, _ = openat(a.members, nameEvents, unix.O_RDONLY)
	}
	a.openExempt()
	return nil
}

// descend opens the target's directory in a tree, element by element, so that no element can be a
// link.
func (a *attempt) descend(root int) (int, error) {
	if len(a.target.Path)+1 > len(a.w.path) {
		return -1, fmt.Errorf("%w: a path of %d bytes", ErrNotPod, len(a.target.Path))
	}
	n := copy(a.w.path, a.target.Path)
	a.w.path[n] = 0
	fd := root
	for begin := 1; begin < n; {
		end := begin
		for end < n && a.w.path[end] != '/' {
			end++
		}
		a.w.path[end] = 0
		next, err := openat(fd, &a.w.path[begin], dirFlags)
		if fd != root {
			_ = unix.Close(fd)
		}
		if err != nil {
			return -1, a.absent(err)
		}
		fd, begin = next, end+1
	}
	return fd, nil
}

// absent returns the error for a directory that cannot be opened.
func (a *attempt) absent(err error) error {
	switch {
	case gone(err):
		return fmt.Errorf("%w: %s", ErrGone, a.target.Path)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%w: a part of %s is no directory, or a symbolic link", ErrNotPod, a.target.Path)
	}
	return fmt.Errorf("open %s: %w", a.target.Path, err)
}

func (a *attempt) failed(err error) error {
	return fmt.Errorf("end pod %s: %w", a.target.UID, err)
}

// gone reports whether a cgroup was removed: before it was opened, or while it was open. Only
// cgroups without processes can be removed.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}
