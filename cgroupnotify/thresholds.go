package cgroupnotify

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// thresholds are the lines of a version 1 cgroup. The kernel signals an eventfd when
// memory.usage_in_bytes crosses a level, in either direction.
type thresholds struct {
	c      *watched
	source *Source
	lines  []*line
}

// line is one amount of available memory to watch. While its level moves it has two eventfds:
// the old one is closed after the registration of the new one.
type line struct {
	pace      pace
	level     uint64   // of usage, in bytes
	handler   *handler // nil: not armed
	next      *handler // at the new level, during its registration
	done      chan error
	nextLevel uint64 // the new level
}

func newThresholds(c *watched) *thresholds {
	return &thresholds{c: c, source: c.n.source(Threshold, c.where)}
}

func (t *thresholds) entry() *Source { return t.source }

// open tries every step of a line except the registration itself.
func (t *thresholds) open() error {
	r, fd, err := t.prepare(0, false)
	if err != nil {
		return err
	}
	_ = unix.Close(fd)
	r.close()
	return nil
}

func (t *thresholds) close() {
	t.truncate(0)
}

// truncate removes all lines but the first count.
func (t *thresholds) truncate(count int) {
	for i := count; i < len(t.lines); i++ {
		t.c.n.set.remove(t.lines[i].handler)
		t.c.n.set.remove(t.lines[i].next)
	}
	t.lines = t.lines[:min(count, len(t.lines))]
}

// follow arms the lines of the cgroup's signal with a moved level.
func (t *thresholds) follow(o *signals.Observation, lines []signals.Line) {
	if t.source.Err != nil || !o.Known {
		return
	}
	usage, err := t.c.memory.Usage()
	count := 0
	for i := range lines {
		if lines[i].Signal != t.c.signal || err != nil {
			continue
		}
		if count == len(t.lines) {
			t.lines = append(t.lines, &line{pace: near, done: make(chan error, 1)})
		}
		err = t.move(t.lines[count], usage, o, lines[i].At)
		count++
	}
	if err != nil {
		t.fail(err)
		return
	}
	t.truncate(count)
}

// move arms a line at another level if necessary. The check alone shows whether the level may
// have moved. The level itself is calculated from memory.stat, because memory may have changed
// since the check.
func (t *thresholds) move(l *line, usage uint64, o *signals.Observation, at signals.Amount) error {
	if err := t.finish(l); err != nil || l.next != nil {
		return err
	}
	above := o.Available >= at
	if l.handler != nil && !l.isBehind(usage, above) && !moved(estimate(usage, o, at), l.level, usage) {
		return nil
	}
	u, err := t.c.memory.Read()
	if err != nil {
		return err
	}
	level, ok := levelOf(o, at, u, pageSize)
	switch {
	case !ok:
		t.c.n.set.remove(l.handler)
		l.handler = nil
		return nil
	case l.handler != nil && !l.isBehind(u.Usage, above) && !moved(level, l.level, u.Usage):
		return nil
	}
	return t.arm(l, level, !above)
}

// isBehind reports whether usage has passed the armed level although the check found the line
// not crossed. However near the level is, it is not signalled again on the way to the line.
func (l *line) isBehind(usage uint64, above bool) bool { return above && usage >= l.level }

var pageSize = uint64(os.Getpagesize())

// arm registers a level beside the loop, because the kernel waits for an RCU grace period: 16
// ms, and up to 60.
func (t *thresholds) arm(l *line, level uint64, below bool) error {
	r, fd, err := t.prepare(level, below)
	if err != nil {
		return err
	}
	next, err := t.c.n.set.add(t, fd, &l.pace, unix.EPOLLIN)
	if err != nil {
		r.close()
		return err
	}
	l.next, l.nextLevel = next, level
	done := l.done
	t.c.n.arming.Go(func() { done <- r.run() })
	return nil
}

// finish switches to the new level after its registration.
func (t *thresholds) finish(l *line) error {
	if l.next == nil {
		return nil
	}
	select {
	case err := <-l.done:
		if err != nil {
			return err
		}
		t.c.n.set.remove(l.handler)
		l.handler, l.level, l.next = l.next, l.nextLevel, nil
	default:
	}
	return nil
}

// handle handles a crossing in either direction; the check observes which.
func (t *thresholds) handle(fd int, _ uint32) (signals.Wakes, error) {
	if err := t.c.n.set.drain(fd); err != nil {
		return 0, err
	}
	if err := t.c.alive(); err != nil {
		return 0, err
	}
	return signals.ByCrossing, nil
}

func (t *thresholds) fail(err error) { t.c.failed(t, err) }

// prepare opens the descriptors of a registration and the eventfd to watch.
func (t *thresholds) prepare(level uint64, below bool) (r registration, fd int, err error) {
	r = registration{control: -1, usage: -1, event: -1, level: level, below: below, where: t.c.dir.Path()}
	if r.control, err = t.c.dir.Open("cgroup.event_control", unix.O_WRONLY); err == nil {
		r.usage, err = t.c.dir.Open("memory.usage_in_bytes", unix.O_RDONLY)
	}
	fd = -1
	if err == nil {
		if fd, r.event, err = eventfds(); err != nil {
			err = fmt.Errorf("watch %s: make an eventfd: %w: raise the limit of open files (RLIMIT_NOFILE)", r.where, err)
		}
	}
	if err != nil {
		r.close()
	}
	return r, fd, err
}

// eventfds creates an eventfd with two descriptors, one for the set and one for the
// registration, so that each closes its own.
func eventfds() (fd, other int, err error) {
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return -1, -1, err
	}
	if other, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		_ = unix.Close(fd)
		return -1, -1, err
	}
	return fd, other, nil
}
