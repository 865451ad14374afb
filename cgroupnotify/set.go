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

// A source is whose descriptor the kernel makes ready.
type source interface {
	// hear takes what there is to take from a descriptor that epoll has found in
	// this state, and says what to wake for; nothing is fine.
	hear(fd int, state uint32) (signals.Wakes, error)
	// fail comes with an error of hear. Descriptors of the speaker may be removed
	// in it, and none be added.
	fail(err error)
}

// An handler is one descriptor in the set. It is heard once (EPOLLONESHOT), and then
// only when it was armed again: whatever state it is in, nothing spins.
type handler struct {
	of     source
	fd     int // -1 once it was removed
	events uint32
	pace   *pace
	armed  bool
}

// A set is what one wait waits for: the time, a wake by this program, and ears.
// All but ring is for one goroutine.
type set struct {
	epoll, timer int
	file         *os.File // the epoll set, as the runtime's own poller sees it
	parked       syscall.RawConn
	ready        func(uintptr) bool // made once: a method value is an allocation
	found        int
	failure      error
	looks        int      // of this park
	swallowed    bool     // see park
	bell         *os.File // so that a ring after the close hits nothing
	bellFD       int
	ears         []*handler // by slot; nil where one is free

	events [16]unix.EpollEvent // scratch, so that no wait allocates
	event  unix.EpollEvent
	spec   unix.ItimerSpec
	count  [8]byte
}

// The slots that are no ears'.
const (
	timerSlot = -1
	bellSlot  = -2
)

func openSet() (*set, error) {
	s := &set{epoll: -1, timer: -1, bellFD: -1}
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
	s.ready = s.look
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, s.failed("timerfd_create", err)
	}
	// Blocking, so that the file stays out of the runtime's own epoll; neither
	// its only reader, who knows that there is something, nor a writer ever waits.
	if s.bellFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, s.failed("eventfd", err)
	}
	s.bell = os.NewFile(uintptr(s.bellFD), "eventfd")
	if err = errors.Join(s.control(unix.EPOLL_CTL_ADD, s.timer, timerSlot, unix.EPOLLIN),
		s.control(unix.EPOLL_CTL_ADD, s.bellFD, bellSlot, unix.EPOLLIN)); err != nil {
		return nil, s.failed("epoll_ctl", err)
	}
	return s, nil
}

func (s *set) failed(op string, err error) error {
	s.close()
	return fmt.Errorf("wait for notifications: %s: %w: raise the limit of open files (RLIMIT_NOFILE)", op, err)
}

// close closes everything; a wait afterwards waits for the time alone.
func (s *set) close() {
	for _, e := range s.ears {
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
	if s.bell != nil {
		_ = s.bell.Close()
		s.bellFD = -1
	}
}

func (s *set) control(op, fd, slot int, events uint32) error {
	s.event = unix.EpollEvent{Events: events, Fd: int32(slot)}
	return unix.EpollCtl(s.epoll, op, fd, &s.event)
}

// add has a descriptor heard, which then is the set's to close, also on error.
// Eventfds become readable (EPOLLIN), files of the kernel have a priority event
// (EPOLLPRI) and are always readable; errors are told unasked.
func (s *set) add(of source, fd int, p *pace, events uint32) (*handler, error) {
	e := &handler{of, fd, events | unix.EPOLLONESHOT, p, true}
	slot := 0
	for slot < len(s.ears) && s.ears[slot] != nil {
		slot++
	}
	if err := s.control(unix.EPOLL_CTL_ADD, fd, slot, e.events); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("wait for a notification: epoll_ctl: %w", err)
	}
	if slot == len(s.ears) {
		s.ears = append(s.ears, nil)
	}
	s.ears[slot] = e
	return e, nil
}

// remove forgets an ear and closes its descriptor; nil is none. It leaves the
// epoll set first: a process that is being started may hold a copy of it.
func (s *set) remove(e *handler) {
	if e == nil || e.fd < 0 {
		return
	}
	for slot := range s.ears {
		if s.ears[slot] == e {
			s.ears[slot] = nil
		}
	}
	_ = s.control(unix.EPOLL_CTL_DEL, e.fd, 0, 0)
	_ = unix.Close(e.fd)
	e.fd, e.armed = -1, false
}

// ring ends the present wait, or the next one. Any goroutine may call it.
func (s *set) ring() { _, _ = s.bell.Write(one) }

// one is what is added to an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)
