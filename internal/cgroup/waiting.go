package cgroup

import "golang.org/x/sys/unix"

// Open opens one of the cgroup's files for waiting or writing; the caller closes it. The file
// belongs to this cgroup even if another one has taken its path meanwhile. Returns a
// [*ReadError] if it can not be opened.
func (d *Dir) Open(name string, flags int) (fd int, err error) {
	for {
		fd, err := unix.Openat(d.fd, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err == nil {
			return fd, nil
		}
		if err != unix.EINTR {
			return -1, &ReadError{"open", d.path + "/" + name, errnoOf(err)}
		}
	}
}

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }
