package cgroupnotify

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// wait waits until the deadline or a wake.
func (s *set) wait(until time.Time, park bool) (woken signals.Wakes) {
	for {
		now := time.Now()
		left := min(until.Sub(now), s.arm(now))
		n, err := s.poll(left, park)
		if err != nil {
			s.waitWithoutEpoll(left)
		}
		for i := range s.events[:n] {
			woken |= s.dispatch(&s.events[i])
		}
		if s.consumed {
			s.consumed = false
			woken |= s.handlePressure()
		}
		if woken != 0 || !time.Now().Before(until) {
			return woken
		}
	}
}

// arm rearms the handlers that are due by their pace, and returns the time until the next one.
// An event missed meanwhile is reported at once.
func (s *set) arm(now time.Time) (next time.Duration) {
	next = maxWait
	for slot, e := range s.handlers {
		if e == nil || e.armed {
			continue
		}
		if wait := e.pace.free().Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		e.armed = true
		if err := s.control(unix.EPOLL_CTL_MOD, e.fd, slot, e.events); err != nil {
			e.of.fail(fmt.Errorf("wait for a notification: epoll_ctl: %w", err))
		}
	}
	return next
}

// maxWait exceeds any wait.
const maxWait = 1<<63 - 1

// poll queries epoll once. The separate timer is exact to about 0.1 ms for any duration. The
// timeout of epoll_pwait2 may be late by a thousandth of it, and is missing in kernels before
// 5.11 and under stricter seccomp profiles.
func (s *set) poll(left time.Duration, park bool) (n int, err error) {
	if left > 0 {
		if err := s.setTimer(left); err != nil {
			return 0, err
		}
	}
	switch {
	case left > 0 && park:
		return s.park()
	case left > 0:
		n, err = s.await()
	default:
		n, err = s.pollNow()
	}
	if err == unix.EINTR { // a signal of the Go runtime
		return 0, nil
	}
	return n, err
}

// park waits for the set in the runtime's poller. That poller queries the set for events, and a
// query consumes the event of a pressure trigger. So a wakeup without an event means a stall. In
// await such an event is lost if the poller is faster; while the stall lasts, the kernel signals it
// again after its window.
func (s *set) park() (n int, err error) {
	s.queries = 0
	if err := s.parked.Read(s.ready); err != nil {
		return 0, err
	}
	return s.found, s.failure
}

// collect gets the pending events, and reports whether there were any.
func (s *set) collect(uintptr) bool {
	if s.found, s.failure = s.pollNow(); s.failure == unix.EINTR {
		s.failure = nil
	}
	s.queries++
	s.consumed = s.found == 0 && s.queries > 1
	return s.found > 0 || s.consumed || s.failure != nil
}

// handlePressure handles all armed pressure triggers.
func (s *set) handlePressure() (woken signals.Wakes) {
	for _, e := range s.handlers {
		if e == nil || !e.armed {
			continue
		}
		if _, is := e.of.(*pressure); is {
			woken |= s.handleEvent(e, unix.EPOLLPRI)
		}
	}
	return woken
}

// waitWithoutEpoll waits while epoll itself fails, which is not known of any kernel. The loop
// continues without notifications, and without spinning.
func (s *set) waitWithoutEpoll(left time.Duration) {
	const maxMillis = 1000
	millis := min(left.Milliseconds()+1, maxMillis)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(s.wakeFD), Events: unix.POLLIN}}, int(max(millis, 0)))
}

// dispatch passes one event to its handler.
func (s *set) dispatch(event *unix.EpollEvent) signals.Wakes {
	switch slot := int(event.Fd); {
	case slot == wakeSlot:
		_, _ = unix.Read(s.wakeFD, s.count[:])
		return signals.ByRequest
	case slot < 0 || slot >= len(s.handlers) || s.handlers[slot] == nil || !s.handlers[slot].armed:
		return 0 // the timer, or a handler removed by an earlier event
	default:
		return s.handleEvent(s.handlers[slot], event.Events)
	}
}

// handleEvent handles one event of a handler. It counts against the pace even without a wake.
func (s *set) handleEvent(e *handler, state uint32) signals.Wakes {
	e.armed = false
	e.pace.record(time.Now())
	woken, err := e.of.handle(e.fd, state)
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
