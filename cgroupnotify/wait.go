package cgroupnotify

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// wait waits until the deadline or a wake.
func (s *set) wait(until time.Time) (woken signals.Wakes) {
	for {
		now := time.Now()
		left := min(until.Sub(now), s.arm(now))
		n, err := s.poll(left)
		if err != nil {
			s.pass(left)
		}
		for i := range s.events[:n] {
			woken |= s.heard(&s.events[i])
		}
		if s.swallowed {
			s.swallowed = false
			woken |= s.hearPressure()
		}
		if woken != 0 || !time.Now().Before(until) {
			return woken
		}
	}
}

// arm rearms the handlers that are due by their pace, and returns the time until the next one.
// An event missed meanwhile is reported at once.
func (s *set) arm(now time.Time) (next time.Duration) {
	next = longest
	for slot, e := range s.ears {
		if e == nil || e.armed {
			continue
		}
		if rests := e.pace.free().Sub(now); rests > 0 {
			next = min(next, rests)
			continue
		}
		e.armed = true
		if err := s.control(unix.EPOLL_CTL_MOD, e.fd, slot, e.events); err != nil {
			e.of.fail(fmt.Errorf("wait for a notification: epoll_ctl: %w", err))
		}
	}
	return next
}

// longest exceeds any wait.
const longest = 1<<63 - 1

// poll queries epoll once. The separate timer is exact to about 0.1 ms for any duration. The
// timeout of epoll_pwait2 may be late by a thousandth of it, and is missing in kernels before
// 5.11 and under stricter seccomp profiles.
func (s *set) poll(left time.Duration) (n int, err error) {
	if left > 0 {
		if err := s.setTimer(left); err != nil {
			return 0, err
		}
	}
	switch {
	case left >= restTime:
		return s.park()
	case left > 0:
		n, err = s.await()
	default:
		n, err = s.there()
	}
	if err == unix.EINTR { // a signal of the Go runtime
		return 0, nil
	}
	return n, err
}

// restTime is the minimum wait that uses the runtime's own poller. A thread in a system call
// holds a processor of Go's scheduler, and its monitor polls until it has retaken it: 18
// wakeups for a wait of 25 ms. A parked goroutine costs one wakeup, but any thread of the
// program may run it afterwards.
const restTime = 20 * time.Millisecond

// park waits for the set in the runtime's poller. That poller queries the set for events, and a
// query consumes the event of a pressure trigger. So a wakeup without an event means a stall.
func (s *set) park() (n int, err error) {
	s.looks = 0
	if err := s.parked.Read(s.ready); err != nil {
		return 0, err
	}
	return s.found, s.failure
}

// look collects the events, and reports whether there were any.
func (s *set) look(uintptr) bool {
	if s.found, s.failure = s.there(); s.failure == unix.EINTR {
		s.failure = nil
	}
	s.looks++
	s.swallowed = s.found == 0 && s.looks > 1
	return s.found > 0 || s.swallowed || s.failure != nil
}

// hearPressure handles all armed pressure triggers.
func (s *set) hearPressure() (woken signals.Wakes) {
	for _, e := range s.ears {
		if e == nil || !e.armed {
			continue
		}
		if _, is := e.of.(*pressure); is {
			woken |= s.listen(e, unix.EPOLLPRI)
		}
	}
	return woken
}

// pass waits while epoll itself fails, which is not known of any kernel. The loop continues
// without notifications, and without spinning.
func (s *set) pass(left time.Duration) {
	const maxMillis = 1000
	millis := min(left.Milliseconds()+1, maxMillis)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.bellFD), Events: unix.POLLIN}}, int(max(millis, 0)))
}

// heard handles one event.
func (s *set) heard(event *unix.EpollEvent) signals.Wakes {
	switch slot := int(event.Fd); {
	case slot == bellSlot:
		_, _ = unix.Read(s.bellFD, s.count[:])
		return signals.ByRequest
	case slot < 0 || slot >= len(s.ears) || s.ears[slot] == nil || !s.ears[slot].armed:
		return 0 // the timer, or a handler removed by an earlier event
	default:
		return s.listen(s.ears[slot], event.Events)
	}
}

// listen handles one event of a handler. It counts against the pace even without a wake.
func (s *set) listen(e *handler, state uint32) signals.Wakes {
	e.armed = false
	e.pace.take(time.Now())
	woken, err := e.of.hear(e.fd, state)
	if err != nil {
		e.of.fail(err)
		return 0
	}
	return woken
}

// drain resets the counter of an eventfd; its value is not used.
func (s *set) drain(fd int) error {
	switch _, err := unix.Read(fd, s.count[:]); err {
	case nil, unix.EAGAIN, unix.EINTR:
		return nil
	default:
		return fmt.Errorf("read an eventfd: %w", err)
	}
}
