package cgroupnotify

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// oom watches the OOM killer in a version 1 cgroup. It runs when the cgroup or an ancestor is
// at its limit. At that time a pod can no longer be saved, so the notification only records it.
type oom struct {
	c       *watched
	source  *Source
	pace    pace
	handler *handler
}

func newOOM(c *watched) *oom {
	return &oom{c: c, source: c.n.source(OOMControl, c.where), pace: near}
}

func (o *oom) entry() *Source { return o.source }

// open registers an eventfd, which takes microseconds. The eventfd is signalled at once if the
// cgroup is at its limit already.
func (o *oom) open() error {
	control, err := o.c.dir.Open("cgroup.event_control", unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(control) //nolint:errcheck // what was written has been taken
	file, err := o.c.dir.Open("memory.oom_control", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(file) //nolint:errcheck // nothing was written
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch %s: make an eventfd: %w: raise the limit of open files (RLIMIT_NOFILE)", o.c.dir.Path(), err)
	}
	text := append(strconv.AppendInt(nil, int64(fd), 10), ' ')
	if err := write(control, strconv.AppendInt(text, int64(file), 10)); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("register for OOM in %s/cgroup.event_control: %w", o.c.dir.Path(), err)
	}
	o.handler, err = o.c.n.set.add(o, fd, &o.pace, unix.EPOLLIN)
	return err
}

func (o *oom) close() {
	o.c.n.set.remove(o.handler)
	o.handler = nil
}

func (o *oom) handle(fd int, _ uint32) (signals.Wakes, error) {
	if err := o.c.n.set.drain(fd); err != nil {
		return 0, err
	}
	if err := o.c.alive(); err != nil {
		return 0, err
	}
	return signals.ByOOM, nil
}

func (o *oom) fail(err error) { o.c.failed(o, err) }
