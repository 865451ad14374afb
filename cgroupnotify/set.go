package cgroupnotify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// source is the owner of a descriptor in the set.
type source interface {
	// handle reads a descriptor that epoll reported in this state, and returns the wakes; none is
	// valid.
	handle(fd int, state uint32) (signals.Wakes, error)
	// fail handles an error of handle. It may remove descriptors of the source, and must not add
	// any.
	fail(err error)
}

// handler is one descriptor in the set. It is reported once (EPOLLONESHOT) and then only after
// it was armed again, so it never spins in any state.
type handler struct {
	of     source
	fd     int // -1 after its removal
	events uint32
	pace   *pace
	armed  bool
}

// set is the descriptors of one wait: the timer, the eventfd for wakes by this program, and
// handlers. All methods but wake are for one goroutine.
type set struct {
	epoll, timer int
	file         *os.File // the epoll set in the runtime's own poller
	parked       syscall.RawConn
	ready        func(uintptr) bool // created once: a method value is an allocation
	found        int
	failure      error
	queries      int      // of this park
	consumed     bool     // see park
	wakeEvent    *os.File // an os.File, so that a wake after close has no effect
	wakeFD       int
	handlers     []*handler // by slot; nil in a free one

	events [16]unix.EpollEvent // scratch, so that a wait allocates nothing
	event  unix.EpollEvent
	spec   unix.ItimerSpec
	count  [8]byte
}

// Slots of descriptors without a handler.
const (
	timerSlot = -1
	wakeSlot  = -2
)

func openSet() (*set, error) {
	s := &set{epoll: -1, timer: -1, wakeFD: -1}
	var err error
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, s.failed("epoll_create", err)
	}
	if err = unix.SetNonblock(s.epoll, true); err != nil {
		return nil, s.failed("fcntl", err)
	}
	s.file = os.NewFile(uintptr(s.epoll), "epoll")
	if s.parked, err = s.file.SyscallConn(); err != nil {
		return nil, s.failed("epoll in epoll", err)
	}
	s.ready = s.collect
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, s.failed("timerfd_create", err)
	}
	// Blocking, so that the file stays out of the runtime's own epoll. Neither its only reader,
	// which reads after an event, nor a writer ever blocks.
	if s.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, s.failed("eventfd", err)
	}
	s.wakeEvent = os.NewFile(uintptr(s.wakeFD), "eventfd")
	if err = errors.Join(s.control(unix.EPOLL_CTL_ADD, s.timer, timerSlot, unix.EPOLLIN),
		s.control(unix.EPOLL_CTL_ADD, s.wakeFD, wakeSlot, unix.EPOLLIN)); err != nil {
		return nil, s.failed("epoll_ctl", err)
	}
	return s, nil
}

func (s *set) failed(op string, err error) error {
	s.close()
	return fmt.Errorf("wait for notifications: %s: %w: raise the limit of open files (RLIMIT_NOFILE)", op, err)
}

// close closes all descriptors. A later wait only waits for the deadline.
func (s *set) close() {
	for _, e := range s.handlers {
		s.remove(e)
	}
	if s.timer >= 0 {
		_ = unix.Close(s.timer)
		s.timer = -1
	}
	if s.file != nil {
		_ = s.file.Close()
	}
	s.epoll = -1
	if s.wakeEvent != nil {
		_ = s.wakeEvent.Close()
		s.wakeFD = -1
	}
}

func (s *set) control(op, fd, slot int, events uint32) error {
	s.event = unix.EpollEvent{Events: events, Fd: int32(slot)}
	return unix.EpollCtl(s.epoll, op, fd, &s.event)
}

// add adds a descriptor to the set, which owns it from then on, also on error. Eventfds become
// readable (EPOLLIN). Kernel files have a priority event (EPOLLPRI) and are always readable.
// Errors are always reported.
func (s *set) add(of source, fd int, p *pace, events uint32) (*handler, error) {
	e := &handler{of, fd, events | unix.EPOLLONESHOT, p, true}
	slot := 0
	for slot < len(s.handlers) && s.handlers[slot] != nil {
		slot++
	}
	if err := s.control(unix.EPOLL_CTL_ADD, fd, slot, e.events); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("wait for a notification: epoll_ctl: %w", err)
	}
	if slot == len(s.handlers) {
		s.handlers = append(s.handlers, nil)
	}
	s.handlers[slot] = e
	return e, nil
}

// remove removes a handler and closes its descriptor; nil is ignored. The descriptor leaves the
// epoll set first, because a process that is being started may hold a copy of it.
func (s *set) remove(e *handler) {
	if e == nil || e.fd < 0 {
		return
	}
	for slot := range s.handlers {
		if s.handlers[slot] == e {
			s.handlers[slot] = nil
		}
	}
	_ = s.control(unix.EPOLL_CTL_DEL, e.fd, 0, 0)
	_ = unix.Close(e.fd)
	e.fd, e.armed = -1, false
}

// wake ends the current wait, or the next one. It is safe on any goroutine.
func (s *set) wake() { _, _ = s.wakeEvent.Write(one) }

// one is the value added to an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)
