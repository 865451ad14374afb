package cgroupnotify

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Events hears of what a version 2 cgroup counts in memory.events.local (of its
// own memory) and in memory.events (of all below it, too). The kernel tells of
// each file every 10 ms at most; those of the cgroups below may go on for hours,
// so that their file has a pace of its own.
type events struct {
	c          *watched
	source     *Source
	local, all eventsFile
	text       [512]byte // scratch
}

// An eventsFile is one of the two files.
type eventsFile struct {
	pace pace
	ear  *handler // nil: not open
	was  cgroup.MemoryEvents
}

func newEvents(c *watched) *events {
	return &events{c: c, source: c.n.source(MemoryEvents, c.where), local: eventsFile{pace: near}, all: eventsFile{pace: far}}
}

func (e *events) told() *Source { return e.source }

// open opens both files, and reads them once: a file that was never read counts
// as changed.
func (e *events) open() error {
	if err := e.openFile(&e.all, "memory.events"); err != nil {
		return err
	}
	err := e.openFile(&e.local, "memory.events.local")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // before Linux 5.2: what is the cgroup's own can not be told
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
	f.ear, err = e.c.n.set.add(e, fd, &f.pace, unix.EPOLLPRI)
	return err
}

func (e *events) close() {
	for _, f := range []*eventsFile{&e.local, &e.all} {
		e.c.n.set.remove(f.ear)
		f.ear = nil
	}
}

// read reads a file from its start, which also has the kernel tell of the next
// change.
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

// hear reads the file that has changed. What is the cgroup's own is counted in
// both, so that it wakes twice at most.
func (e *events) hear(fd int, _ uint32) (signals.Wakes, error) {
	f := &e.all
	if e.local.ear != nil && e.local.ear.fd == fd {
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

// wakesOf is what to wake for when the counters went from one state to another.
func wakesOf(was, now cgroup.MemoryEvents) (w signals.Wakes) {
	if now.High != was.High || now.Max != was.Max {
		w |= signals.ByLimit
	}
	if now.OOM != was.OOM || now.OOMKill != was.OOMKill {
		w |= signals.ByOOM
	}
	return w
}
