package cgroupnotify

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// Thresholds are the lines of a version 1 cgroup: the kernel rings an eventfd
// when memory.usage_in_bytes crosses a level, once up and once down.
type thresholds struct {
	c      *watched
	source *Source
	lines  []*line
}

// A line is one amount that less than may become available. While its level
// moves there are two eventfds: the old one is closed once the kernel knows the
// new one.
type line struct {
	pace  pace
	level uint64   // of usage, in bytes
	ear   *handler // nil: not armed
	next  *handler // at the new level, while it is being registered
	done  chan error
	wants uint64 // the new level
}

func newThresholds(c *watched) *thresholds {
	return &thresholds{c: c, source: c.n.source(Threshold, c.where)}
}

func (t *thresholds) told() *Source { return t.source }

// open tries everything that a line needs but the registration itself.
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
	t.keep(0)
}

// keep drops all lines but the first few.
func (t *thresholds) keep(count int) {
	for i := count; i < len(t.lines); i++ {
		t.c.n.set.remove(t.lines[i].ear)
		t.c.n.set.remove(t.lines[i].next)
	}
	t.lines = t.lines[:min(count, len(t.lines))]
}

// follow arms those lines of the cgroup's signal whose level has moved.
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
	t.keep(count)
}

// move has a line armed at another level if it has to be. That the level may
// have moved is told from the look alone; where it is now, from memory.stat,
// because memory may have moved since the look.
func (t *thresholds) move(l *line, usage uint64, o *signals.Observation, at signals.Amount) error {
	if err := t.settle(l); err != nil || l.next != nil {
		return err
	}
	above := o.Available >= at
	if l.ear != nil && !l.isBehind(usage, above) && !moved(guess(usage, o, at), l.level, usage) {
		return nil
	}
	u, err := t.c.memory.Read()
	if err != nil {
		return err
	}
	level, ok := levelOf(o, at, u, pageSize)
	switch {
	case !ok:
		t.c.n.set.remove(l.ear)
		l.ear = nil
		return nil
	case l.ear != nil && !l.isBehind(u.Usage, above) && !moved(level, l.level, u.Usage):
		return nil
	}
	return t.arm(l, level, !above)
}

// isBehind reports whether usage has passed the armed level although the check found
// the line not crossed: however near the level is, it does not ring again on the way there.
func (l *line) isBehind(usage uint64, above bool) bool { return above && usage >= l.level }

var pageSize = uint64(os.Getpagesize())

// arm has a level registered beside the loop, because the kernel waits for an
// RCU grace period in it: 16 ms, and up to 60.
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
	l.next, l.wants = next, level
	done := l.done
	t.c.n.arming.Go(func() { done <- r.run() })
	return nil
}

// settle takes over a level once the kernel knows it.
func (t *thresholds) settle(l *line) error {
	if l.next == nil {
		return nil
	}
	select {
	case err := <-l.done:
		if err != nil {
			return err
		}
		t.c.n.set.remove(l.ear)
		l.ear, l.level, l.next = l.next, l.wants, nil
	default:
	}
	return nil
}

// hear takes a crossing, up or down: which, the look finds out.
func (t *thresholds) hear(fd int, _ uint32) (signals.Wakes, error) {
	if err := t.c.n.set.drain(fd); err != nil {
		return 0, err
	}
	if err := t.c.alive(); err != nil {
		return 0, err
	}
	return signals.ByCrossing, nil
}

func (t *thresholds) fail(err error) { t.c.failed(t, err) }

// prepare opens what a registration needs, and the eventfd to be heard.
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

// eventfds makes an eventfd with two descriptors: one to hear it by, and one for
// who registers it, so that each closes its own.
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
