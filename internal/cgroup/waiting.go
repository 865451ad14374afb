package cgroup

import "golang.org/x/sys/unix"

// Open opens one of the cgroup's files for who waits on its descriptor, or
// writes to it; he closes it. It is this cgroup's file even if another has taken
// its path meanwhile.
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

// Path is the directory's path.
func (d *Dir) Path() string { return d.path }
