package cgroupnotify

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// events watches the counters of a version 2 cgroup in memory.events.local (its own memory) and
// in memory.events (all cgroups below included). The kernel notifies at most every 10 ms per
// file. Events of cgroups below may continue for hours, so that file has its own pace.
type events struct {
	c          *watched
	source     *Source
	local, all eventsFile
	text       [512]byte // scratch
}

// eventsFile is one of the two files.
type eventsFile struct {
	pace    pace
	handler *handler // nil: not open
	was     cgroup.MemoryEvents
}

func newEvents(c *watched) *events {
	return &events{c: c, source: c.n.source(MemoryEvents, c.where), local: eventsFile{pace: near}, all: eventsFile{pace: far}}
}

func (e *events) entry() *Source { return e.source }

// open opens both files and reads them once, because an unread file counts as changed.
func (e *events) open() error {
	if err := e.openFile(&e.all, "memory.events"); err != nil {
		return err
	}
	err := e.openFile(&e.local, "memory.events.local")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // before Linux 5.2: its own events can not be separated
	case err != nil:
		e.close()
	}
	return err
}

func (e *events) openFile(f *eventsFile, name string) error {
	fd, err := e.c.dir.Open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	if f.was, err = e.read(fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	f.handler, err = e.c.n.set.add(e, fd, &f.pace, unix.EPOLLPRI)
	return err
}

func (e *events) close() {
	for _, f := range []*eventsFile{&e.local, &e.all} {
		e.c.n.set.remove(f.handler)
		f.handler = nil
	}
}

// read reads a file from its start, which also enables the notification of the next change.
func (e *events) read(fd int) (cgroup.MemoryEvents, error) {
	for {
		n, err := unix.Pread(fd, e.text[:], 0)
		switch err {
		case nil:
			return cgroup.ParseMemoryEvents(e.text[:n])
		case unix.EINTR:
		default:
			return cgroup.MemoryEvents{}, fmt.Errorf("read the memory.events of %s: %w", e.c.dir.Path(), err)
		}
	}
}

// handle reads the changed file. The cgroup's own events are counted in both files, so they wake
// at most twice.
func (e *events) handle(fd int, _ uint32) (signals.Wakes, error) {
	f := &e.all
	if e.local.handler != nil && e.local.handler.fd == fd {
		f = &e.local
	}
	now, err := e.read(fd)
	if err != nil {
		return 0, err
	}
	was := f.was
	f.was = now
	return wakesOf(was, now), nil
}

func (e *events) fail(err error) { e.c.failed(e, err) }

// wakesOf returns the wakes for a change of the counters.
func wakesOf(was, now cgroup.MemoryEvents) (w signals.Wakes) {
	if now.High != was.High || now.Max != was.Max {
		w |= signals.ByLimit
	}
	if now.OOM != was.OOM || now.OOMKill != was.OOMKill {
		w |= signals.ByOOM
	}
	return w
}
